import { APICallError, RetryError } from 'ai'
import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { ResponseTooLargeError } from './guarded-fetch.ts'
import type { LlmProvider } from './model-name.ts'
import type { Access } from './providers.ts'
import { AgentError, type AgentErrorCode, runCanceled } from './runtime.ts'

const LOGGED_LENGTH_MAX = 300
/** Matches keys of the known providers, also masked ones such as `sk-ab***yz` that providers print. */
const KEY_LIKE = /\b(?:sk|pk|rk|key|AIza|gsk|xai)[-_]?[A-Za-z0-9_*.-]{8,}/g

type LlmCallFacts = {
  agent: string
  provider: LlmProvider
  modelId: string
  access: Access
  signal: AbortSignal
}

/**
 * Converts an error of a model call for the buyer, and logs the details for the operator. The SDK's errors contain the
 * whole request, and a provider's message may quote the key: neither is passed on, not even as a `cause` (T21).
 */
export function explainLlmError(thrown: unknown, facts: LlmCallFacts, logger: Logger): AgentError {
  const { agent, provider, modelId, access, signal } = facts
  if (signal.aborted) return runCanceled()
  const error = RetryError.isInstance(thrown) ? thrown.lastError : thrown
  const status = APICallError.isInstance(error) ? error.statusCode : undefined
  const fields = {
    agent_name: agent,
    model: `${provider}/${modelId}`,
    status,
    reason: redact(reasonOf(error), access.apiKey),
  }
  logger.warn(fields, 'the model call failed')
  const [code, message] = explain(error, status, provider, access.keyVariable)
  return new AgentError(code, message)
}

/** Removes what is or looks like a key from a provider's text; one short line. @internal Exported for its test. */
export function redact(text: string, apiKey: string | undefined): string {
  const known = apiKey === undefined ? text : text.replaceAll(apiKey, '[key]')
  const clean = known.replace(KEY_LIKE, '[key]').replace(/\s+/g, ' ').trim()
  return clean.length <= LOGGED_LENGTH_MAX ? clean : `${clean.slice(0, LOGGED_LENGTH_MAX)}…`
}

function explain(
  error: unknown,
  status: number | undefined,
  provider: LlmProvider,
  keyVariable: string,
): [AgentErrorCode, string] {
  if (hasCause(error, ResponseTooLargeError))
    return ['AGENT_OUTPUT_TOO_LARGE', `the answer of ${provider} is too large`]
  if (status === undefined) {
    return APICallError.isInstance(error) && error.isRetryable
      ? ['AGENT_FAILED', `${provider} could not be reached; try again later`]
      : ['AGENT_FAILED', `${provider} gave an answer that is not understood`]
  }
  const http = `(HTTP ${status})`
  if (status >= 300 && status < 400) {
    return ['AGENT_NOT_RUNNABLE', `${provider} answers with a redirect ${http}: its seller must correct the address`]
  }
  if (status < 400) return ['AGENT_FAILED', `${provider} gave an answer that is not understood ${http}`]
  if (status === 401 || status === 403) {
    return [
      'AGENT_NOT_RUNNABLE',
      `${provider} refused the agent's model key ${http}: its seller must check ${keyVariable}`,
    ]
  }
  if (status === 402) {
    return ['AGENT_NOT_RUNNABLE', `the seller's account at ${provider} has no credit left ${http}`]
  }
  if (status === 404) {
    return ['AGENT_NOT_RUNNABLE', `${provider} does not know the agent's model ${http}: its seller must check its name`]
  }
  if (status === 413) return ['AGENT_FAILED', `the task is too long for ${provider} ${http}`]
  if (status === 429) {
    return [
      'AGENT_FAILED',
      `${provider} is limiting the seller's requests, or its quota is used up ${http}; try again later`,
    ]
  }
  if (status >= 500) return ['AGENT_FAILED', `${provider} failed ${http}; try again later`]
  return ['AGENT_FAILED', `${provider} refused the request ${http}`]
}

function hasCause(error: unknown, kind: new (message: string) => Error): boolean {
  let one = error
  for (let depth = 0; depth < 8 && one instanceof Error; depth++) {
    if (one instanceof kind) return true
    one = (one as Error).cause
  }
  return false
}
