import type { AgentDefinition } from '../schema/agent.ts'
import {
  type AgentCall,
  AgentError,
  type AgentRuntime,
  type Lack,
  type OnOutput,
  outputBytesMaxOf,
  outputTooLarge,
  runCanceled,
  timeoutMsOf,
} from './runtime.ts'

export type HostedAgent = {
  id: string
  definition: AgentDefinition
  model: string
  /** A problem for the operator, with its fix. Undefined if there is none. */
  readonly notice: string | undefined
  /** What prevents the agent from running now. Such an agent is not listed. */
  readonly lacks: Lack | undefined
  /** True if its runs need the history of their callers. */
  readonly readsHistory: boolean
  timeoutMs: number
  /** Runs one task within the agent's time and output limits. @throws AgentError */
  run(call: AgentCall): Promise<string>
}

export function hostAgent(id: string, definition: AgentDefinition, runtime: AgentRuntime): HostedAgent {
  const limits = { timeoutMs: timeoutMsOf(definition), outputBytesMax: outputBytesMaxOf(definition) }
  return {
    id,
    definition,
    model: runtime.model,
    // Read each time, because workers come and go.
    get notice() {
      return runtime.notice
    },
    get lacks() {
      return runtime.lacks
    },
    get readsHistory() {
      return runtime.readsHistory === true
    },
    timeoutMs: limits.timeoutMs,
    run: (call) => runBounded(runtime, limits, call),
  }
}

/** How long a runtime may take to stop after the abort. A program's process group is dead by then. */
const STOP_GRACE_MS = 3000

type RunLimits = { timeoutMs: number; outputBytesMax: number }

/**
 * Runs one task within its limits. A timeout or a cancel aborts the runtime and waits at most {@link STOP_GRACE_MS} for
 * it to stop. Both win over a late result. A cancel counts until the runtime calls `onCommitted`. Unexplained errors
 * get a plain message and stay as `cause`.
 * @throws AgentError @internal Exported for its test.
 */
export async function runBounded(runtime: AgentRuntime, limits: RunLimits, call: AgentCall): Promise<string> {
  if (call.signal.aborted) throw runCanceled()
  const controller = new AbortController()
  const commit = () => {
    if (ending !== undefined) return
    call.signal.removeEventListener('abort', onCancel)
    call.onCommitted?.()
  }
  const { promise: stopped, reject: giveUp } = Promise.withResolvers<never>()
  let ending: AgentError | undefined
  let grace: NodeJS.Timeout | undefined
  const stop = (reason: AgentError) => {
    if (ending !== undefined) return
    ending = reason
    grace = setTimeout(() => giveUp(reason), STOP_GRACE_MS)
    controller.abort(reason)
  }
  const onCancel = () => stop(runCanceled())
  const timer = setTimeout(() => stop(timedOut(limits.timeoutMs)), limits.timeoutMs)
  call.signal.addEventListener('abort', onCancel, { once: true })
  try {
    const running = (async () => runtime.run(underSignal(call, controller.signal, commit, limits.outputBytesMax)))()
    const output = await Promise.race([running, stopped])
    if (ending !== undefined) throw ending
    return checkOutput(output, limits.outputBytesMax)
  } catch (error) {
    throw ending ?? explained(error)
  } finally {
    clearTimeout(timer)
    clearTimeout(grace)
    call.signal.removeEventListener('abort', onCancel)
  }
}

function underSignal(call: AgentCall, signal: AbortSignal, onCommitted: () => void, outputBytesMax: number): AgentCall {
  const { input, callerId, history, onOutput, onUsage, origin } = call
  return {
    input,
    callerId,
    history,
    signal,
    onCommitted,
    ...(origin && { origin }),
    ...(onUsage && { onUsage }),
    ...(onOutput && { onOutput: bounded(onOutput, outputBytesMax, signal) }),
  }
}

/**
 * Shows at most as many bytes as a result may have, and nothing after an abort. Shows the text that crosses the limit up to the
 * limit, so that a reader sees that the output filled it.
 */
function bounded(onOutput: OnOutput, bytesMax: number, signal: AbortSignal): OnOutput {
  let left = bytesMax
  return (text) => {
    if (left <= 0 || signal.aborted) return
    const whole = text.toWellFormed()
    const bytes = Buffer.byteLength(whole)
    const shown = bytes <= left ? whole : cutAt(whole, left)
    left -= bytes
    return shown === '' ? undefined : onOutput(shown)
  }
}

/** As many characters as fit. */
function cutAt(text: string, bytesMax: number): string {
  return new TextDecoder().decode(Buffer.from(text).subarray(0, bytesMax), { stream: true })
}

function checkOutput(output: string, outputBytesMax: number): string {
  if (typeof output !== 'string') throw new AgentError('AGENT_FAILED', 'the agent returned no text')
  const text = output.toWellFormed()
  if (Buffer.byteLength(text, 'utf8') > outputBytesMax) throw outputTooLarge(outputBytesMax)
  return text
}

function explained(error: unknown): AgentError {
  return error instanceof AgentError ? error : new AgentError('AGENT_FAILED', 'the agent failed', { cause: error })
}

function timedOut(timeoutMs: number): AgentError {
  return new AgentError('AGENT_TIMEOUT', `the agent did not finish within its limit of ${timeoutMs / 1000} s`)
}
