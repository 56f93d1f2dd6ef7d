import { CodedError } from './errors.ts'
import { boundedText } from './http.ts'
import { fewPreliminaryAnswers } from './preliminary-answers.ts'
import { loadDispatcher, refusePrivate } from './public-dispatcher.ts'

type Asked = {
  method: 'GET' | 'POST'
  headers: Readonly<Record<string, string>>
  body?: string
  /** Ends the request, also while the body arrives slowly. */
  signal: AbortSignal
  /** The most that is read of the answer. */
  bytesMax: number
}
type Answer = { status: number; header(name: string): string | undefined; text: string }

/**
 * Asks a server that may be hostile. Redirects are not followed, compressed answers are not asked for.
 *
 * @throws CodedError ANSWER_TOO_LARGE, ADDRESS_NOT_PUBLIC; the signal's reason; the connection's error
 */
export type GuardedRequest = (url: string, asked: Asked) => Promise<Answer>

/** @param reach with `publicOnly` no address of this node's own network is reached (T12) */
export function createGuardedRequest(reach: { publicOnly: boolean }): GuardedRequest {
  let loaded: Promise<GuardedRequest> | undefined
  return async (url, asked) => {
    refusePrivate(url, reach)
    loaded ??= load(reach)
    return (await loaded)(url, asked)
  }
}

async function load(reach: { publicOnly: boolean }): Promise<GuardedRequest> {
  const [{ request }, dispatcher] = await Promise.all([import('undici'), loadDispatcher(reach)])
  return async (url, { method, headers, body, signal, bytesMax }) => {
    const plain = { ...headers, 'accept-encoding': 'identity' }
    const answer = await request(url, {
      method,
      headers: plain,
      dispatcher,
      ...fewPreliminaryAnswers(signal),
      ...(body !== undefined && { body }),
    })
    const tooLarge = () => new CodedError('ANSWER_TOO_LARGE', `the answer has more than ${bytesMax} bytes`)
    const given = answer.headers
    if (Number(given['content-length'] ?? 0) > bytesMax) {
      answer.body.destroy()
      throw tooLarge()
    }
    const text = await boundedText({ body: answer.body as unknown as Response['body'] }, bytesMax)
    if (text === undefined) throw tooLarge()
    return {
      status: answer.statusCode,
      header(name) {
        const value = given[name]
        return Array.isArray(value) ? value[0] : value
      },
      text,
    }
  }
}
