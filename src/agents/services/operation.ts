import { reasonOf } from '../../lib/errors.ts'
import { GatheredBytes } from '../../lib/gathered-bytes.ts'
import { boundedText } from '../../lib/http.ts'
import type { Logger } from '../../lib/logger.ts'
import type { Operation } from '../../schema/agent-service.ts'
import { type AgentCall, AgentError, outputTooLarge, runCanceled } from '../runtime.ts'
import { requestOf } from './operation-request.ts'
import { wordsOnly } from './plain-schema.ts'
import type { ReadInput } from './task-input.ts'

const REASON_LENGTH_MAX = 300

export type OperationAgent = {
  name: string
  operation: Operation
  read: ReadInput
  key: string | undefined
  outputBytesMax: number
}

/**
 * Runs a task as one request. The body of a 2xx answer is the result. Any other status, redirects included, is a failed
 * run (T12).
 */
export function openOperation(
  { name, operation, read, key, outputBytesMax }: OperationAgent,
  { fetch, logger }: { fetch: typeof globalThis.fetch; logger: Logger },
) {
  async function request({ input, signal }: AgentCall): Promise<string> {
    const { url, method, headers, body } = requestOf(operation, await read(input), key)
    const response = await fetch(url, {
      method,
      headers,
      redirect: 'manual',
      signal,
      ...(body !== undefined && { body }),
    })
    if (response.ok) return await resultOf(response, outputBytesMax)
    await response.body?.cancel()
    logger.warn({ agent_name: name, status: response.status }, 'the operation behind an agent refused its task')
    throw new AgentError('AGENT_FAILED', `the service behind this agent refused the task (HTTP ${response.status})`)
  }

  return {
    async run(call: AgentCall): Promise<string> {
      try {
        return await request(call)
      } catch (error) {
        if (call.signal.aborted) throw runCanceled()
        if (error instanceof AgentError) throw error
        // Not the error itself: an address may hold the key.
        const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
        const reason = wordsOnly((cause as NodeJS.ErrnoException).code ?? reasonOf(cause), REASON_LENGTH_MAX)
        logger.warn({ agent_name: name, reason }, 'the operation behind an agent gave no answer')
        throw new AgentError('AGENT_FAILED', 'the service behind this agent gave no result')
      }
    },
  }
}

/** Text as it is. Other bytes become a `data:` URL. */
async function resultOf(response: Response, bytesMax: number): Promise<string> {
  const type = (response.headers.get('content-type') ?? '').split(';')[0]!.trim().toLowerCase()
  const isText =
    type === '' || /^text\/|[/+](?:json|xml|yaml|javascript|x-ndjson|csv)$|^application\/x-www-form/.test(type)
  if (isText) {
    const text = await boundedText(response, bytesMax)
    if (text === undefined) throw outputTooLarge(bytesMax)
    return text
  }
  const read = new GatheredBytes()
  for await (const chunk of response.body ?? []) {
    // As base64, three bytes become four characters. Leaving the loop cancels the rest of the body.
    if ((read.length + chunk.byteLength) * 4 > bytesMax * 3) throw outputTooLarge(bytesMax)
    read.add(chunk)
  }
  const shown = /^[a-z0-9.+-]+\/[a-z0-9.+-]+$/.test(type) ? type : 'application/octet-stream'
  return `data:${shown};base64,${read.bytes().toString('base64')}`
}
