import { boundedText } from '../lib/http.ts'
import type { Logger } from '../lib/logger.ts'
import { AgentError, type AgentRuntime, outputTooLarge, runCanceled } from './runtime.ts'

type HttpAgentOptions = {
  name: string
  /** Checked: http(s), without credentials. */
  url: string
  token: string | undefined
  outputBytesMax: number
}

/**
 * An agent that is a web service: the task is the body of a POST, the body of a 2xx answer is the result, both text.
 * The token is sent only to the operator's URL. A redirect counts as an answer without a result (T12).
 */
export function httpRuntime(
  options: HttpAgentOptions,
  { fetch, logger }: { fetch: typeof globalThis.fetch; logger: Logger },
): AgentRuntime {
  const { name, url, token, outputBytesMax } = options
  const authorization = token === undefined ? undefined : { authorization: `Bearer ${token}` }
  const headers = { 'content-type': 'text/plain; charset=utf-8', accept: 'text/plain, */*;q=0.5', ...authorization }
  return {
    // Not the URL: it is private to the seller.
    model: 'http',
    async run(call) {
      const { input, signal } = call
      try {
        const response = await fetch(url, { method: 'POST', headers, body: input, redirect: 'manual', signal })
        if (!response.ok) {
          await response.body?.cancel()
          throw new Error(`the service answered ${response.status}`)
        }
        const output = await boundedText(response, outputBytesMax, call.onOutput)
        if (output === undefined) throw outputTooLarge(outputBytesMax)
        return output
      } catch (error) {
        if (signal.aborted) throw runCanceled()
        if (error instanceof AgentError) throw error
        logger.warn({ agent_name: name, err: error }, 'the web service behind an agent did not do its task')
        throw new AgentError('AGENT_FAILED', 'the service behind this agent gave no result')
      }
    },
  }
}
