import * as z from 'zod'
import { reasonOf } from '../lib/errors.ts'
import { boundedText } from '../lib/http.ts'
import { parseJson } from '../lib/json.ts'

const ANSWER_MS_MAX = 5000
const MODELS_MAX = 500
/** Bytes read of a list: 8 KiB for each of the models that are shown. */
const ANSWER_BYTES_MAX = 4 * 1024 * 1024

const Models = z.object({ data: z.array(z.looseObject({ id: z.string().min(1).max(200) })) })

/** Lists the models of a server with OpenAI's API, or says why that fails. */
export async function modelsOf(
  fetch: typeof globalThis.fetch,
  { baseUrl, key }: { baseUrl: string; key: string | undefined },
  stop: AbortSignal,
): Promise<{ models: string[] } | { problem: string }> {
  const url = `${baseUrl.replace(/\/+$/, '')}/models`
  const headers = key === undefined ? undefined : { authorization: `Bearer ${key}` }
  const signal = AbortSignal.any([stop, AbortSignal.timeout(ANSWER_MS_MAX)])
  try {
    const answer = await fetch(url, { redirect: 'error', signal, ...(headers && { headers }) })
    if (answer.status === 401 || answer.status === 403) return { problem: `it refuses the key (HTTP ${answer.status})` }
    if (!answer.ok) return { problem: `it answers ${answer.status} to ${url}: the URL ends in /v1 as a rule` }
    const { data } = Models.safeParse(parseJson((await boundedText(answer, ANSWER_BYTES_MAX)) ?? ''))
    if (data === undefined) return { problem: `${url} is no list of models` }
    return { models: data.data.slice(0, MODELS_MAX).map(({ id }) => id) }
  } catch (error) {
    stop.throwIfAborted()
    if (signal.aborted) return { problem: `it does not answer within ${ANSWER_MS_MAX / 1000} s` }
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
    return { problem: `it cannot be reached: ${(cause as NodeJS.ErrnoException).code ?? reasonOf(cause)}` }
  }
}
