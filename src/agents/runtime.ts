import { CodedError } from '../lib/errors.ts'
import { AGENT_TIMEOUT_SECONDS, type AgentDefinition } from '../schema/agent.ts'

/** Unless its entry says otherwise. In base64 inside JSON it fits a frame many times over; so does the schema's maximum. */
const OUTPUT_BYTES_MAX = 1024 * 1024

/** An earlier task of the same caller to the same agent, and what came of it. */
export type Exchange = { input: string; output: string }

/** Told what an agent says while it works, piece by piece. Only the result counts: what came before it may differ. */
export type OnOutput = (text: string) => void

/** Which run a call is: what it costs its seller is bought once, however often the run is begun (D38). */
export type RunOrigin = {
  /** The same for each attempt at this run of this caller, also after a crash. */
  id: string
  /** Its caller pays for it. */
  isPaid: boolean
  /** How many agents have bought for one another before. */
  hops: number
}

/** One task. `history` holds exchanges of this very caller only, oldest first (D19, T9). */
export type AgentCall = {
  input: string
  callerId: string
  history: readonly Exchange[]
  signal: AbortSignal
  /** Where somebody looks on. A runtime that has nothing to show before its result leaves it alone. */
  onOutput?: OnOutput
  /** Without it the run is one of its own: a test. */
  origin?: RunOrigin
  /** A runtime says this right before its work costs money: from there on the caller cannot take the task back. */
  onCommitted?: () => void
}

/** What keeps an agent from running: a key, or something of its definition that is not there. */
export type Lack = 'key' | 'part'

/** What an agent runs. */
export interface AgentRuntime {
  /** As the listing shows it. */
  readonly model: string
  /** What its operator should know, with the fix: a stand-in runs, or a key is missing. Not for buyers. */
  readonly notice?: string
  /**
   * It cannot run at all, and `notice` says why: such an agent is not put on the market. `key`: a node with another
   * environment may have what is missing.
   */
  readonly lacks?: Lack
  /**
   * Does the task and resolves with its result. Stops soon after `signal` aborts.
   *
   * @throws AgentError for a failure it can explain; whoever calls hides any other error from the buyer.
   */
  run(call: AgentCall): Promise<string>
}

export type AgentErrorCode =
  | 'AGENT_FAILED'
  | 'AGENT_TIMEOUT'
  | 'AGENT_OUTPUT_TOO_LARGE'
  | 'AGENT_NOT_RUNNABLE'
  | 'AGENT_CANCELLED'

/** What is told of a run that was called off: by its caller, or because the node stops. */
export const RUN_CANCELLED = 'the task was cancelled'

/** Why an agent gave no result. Buyers read the message: it holds no key, no path and nothing a provider or program said. */
export class AgentError extends CodedError<AgentErrorCode> {
  override name = 'AgentError'
}

/** Stands where an agent cannot run. @param notice what its operator is told, where that is more than a buyer may know */
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
