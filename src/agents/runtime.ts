import { CodedError } from '../lib/errors.ts'
import { AGENT_TIMEOUT_SECONDS, type AgentDefinition } from '../schema/agent.ts'
import { RUN_CANCELED } from '../schema/limits.ts'

/** Default output limit. Even as base64 in JSON, it fits a frame many times. The schema's maximum fits as well. */
const OUTPUT_BYTES_MAX = 1024 * 1024

/** An earlier task of the same caller to the same agent, and its result. */
export type Exchange = { input: string; output: string }

/**
 * Receives an agent's output while it works, piece by piece. Only the result counts and may differ from the pieces. If it
 * returns a promise, a runtime that can wait does: the piece is not paid for yet.
 */
export type OnOutput = (text: string) => unknown

/** The tokens of a run, as its model counts them. Undefined: it does not say. */
export type Usage = { inputTokens?: number | undefined; outputTokens?: number | undefined }

/** Identifies the run. Purchases for a run are made once, even if the run starts again (D38). */
export type RunOrigin = {
  /** The same for each attempt at this run by this caller, also after a crash. */
  id: string
  isPaid: boolean
  /** Agents in the chain of purchases before this one. */
  hops: number
}

/** One task. `history` holds exchanges of this very caller only, oldest first (D19, T9). */
export type AgentCall = {
  input: string
  callerId: string
  history: readonly Exchange[]
  signal: AbortSignal
  /** Set if a caller watches. A runtime without partial output ignores it. */
  onOutput?: OnOutput
  /** Set if the caller pays by use. A runtime that counts tokens calls it before it returns. The last call counts. */
  onUsage?: (usage: Usage) => void
  /** Undefined for a test, which is a run of its own. */
  origin?: RunOrigin
  /** The runtime calls this right before its work costs money. From then on the caller cannot cancel. */
  onCommitted?: () => void
}

/** What an agent lacks to run: `key`, a model key; `part`, a missing part of its definition; `worker`, a machine. */
export type Lack = 'key' | 'part' | 'worker'

export interface AgentRuntime {
  /** As the listing shows it. */
  readonly model: string
  /** A message for the operator, with the fix: a stand-in runs, or a key is missing. Not shown to buyers. */
  readonly notice?: string | undefined
  /**
   * Set if the agent cannot run: it is not listed, and `notice` says why. `key`: another environment may have it.
   * `worker`: it changes while the node runs.
   */
  readonly lacks?: Lack | undefined
  /** True if `run` reads `call.history`. It is empty for any other runtime, so that nothing is read in vain. */
  readonly readsHistory?: boolean
  /**
   * Stops soon after `signal` aborts. @throws AgentError to explain a failure; any other error is hidden from the buyer
   */
  run(call: AgentCall): Promise<string>
}

export type AgentErrorCode =
  | 'AGENT_FAILED'
  | 'AGENT_TIMEOUT'
  | 'AGENT_OUTPUT_TOO_LARGE'
  | 'AGENT_NOT_RUNNABLE'
  | 'AGENT_CANCELLED'

/** Buyers read the message, so it contains no key, no path and no text of a provider or program. */
export class AgentError extends CodedError<AgentErrorCode> {
  override name = 'AgentError'
}

/**
 * No machine here can run the task, or end a run that has shown nothing. A machine at another process of the seller may.
 */
export class NoMachine extends AgentError {
  constructor() {
    const reason = 'no machine that can run this agent is connected to this process of its seller now'
    super('AGENT_NOT_RUNNABLE', `${reason}; try again later`)
  }
}

export function runCanceled(): AgentError {
  return new AgentError('AGENT_CANCELLED', RUN_CANCELED)
}

export function cannotRun(message: string, options?: ErrorOptions): AgentError {
  return new AgentError('AGENT_NOT_RUNNABLE', message, options)
}

/** @param notice the operator's message, if it says more than a buyer may know */
export function notRunnable(model: string, error: AgentError, lacks: Lack, notice = error.message): AgentRuntime {
  return {
    model,
    notice,
    lacks,
    async run() {
      throw new AgentError(error.code, error.message)
    },
  }
}

export function timeoutMsOf(definition: AgentDefinition): number {
  return (definition.timeout_seconds ?? AGENT_TIMEOUT_SECONDS) * 1000
}

export function outputBytesMaxOf(definition: AgentDefinition): number {
  return definition.output_bytes_max ?? OUTPUT_BYTES_MAX
}

export function outputTooLarge(outputBytesMax: number): AgentError {
  return new AgentError(
    'AGENT_OUTPUT_TOO_LARGE',
    `the agent's result is larger than its limit of ${outputBytesMax} bytes`,
  )
}
