import type { StepStatus, WorkflowStatus } from '../../schema/workflow.ts'
import { x402Errors } from '../../schema/x402.ts'
import type { OrderError, OrderStatus } from '../../store/order-row.ts'
import type { ReservationState } from '../../store/purchases.ts'

/** Steps of one workflow that are at work at once. */
export const STEPS_AT_ONCE_MAX = 8

const RETRY_MS = 1_000
const RETRY_MS_MAX = 30_000

/** What of a step decides how its workflow goes on. */
export type StepProgress = { id: string; status: StepStatus; dependsOn: readonly string[] }

/** Steps that may begin now: what they depend on is completed, nothing has failed, and there is room. */
export function stepsToBegin<S extends StepProgress>(steps: readonly S[]): S[] {
  if (steps.some(({ status }) => isFruitless(status))) return []
  const completed = new Set(steps.filter(({ status }) => status === 'completed').map(({ id }) => id))
  const room = STEPS_AT_ONCE_MAX - steps.filter(({ status }) => status === 'running').length
  return steps
    .filter(({ status, dependsOn }) => status === 'pending' && dependsOn.every((id) => completed.has(id)))
    .slice(0, Math.max(0, room))
}

/** Steps that will never begin: once one has failed, nothing more is bought. */
export function stepsToSkip<S extends StepProgress>(steps: readonly S[]): S[] {
  if (!steps.some(({ status }) => isFruitless(status))) return []
  return steps.filter(({ status }) => status === 'pending')
}

/** What a workflow is, going by its steps; one that was canceled is so whatever they say. */
export function statusOf(steps: readonly StepProgress[]): Exclude<WorkflowStatus, 'canceled'> {
  if (steps.some(({ status }) => status === 'running')) return 'running'
  if (steps.some(({ status }) => isFruitless(status))) return 'failed'
  if (steps.every(({ status }) => status === 'completed')) return 'completed'
  return steps.some(({ status }) => status === 'completed') ? 'running' : 'pending'
}

function isFruitless(status: StepStatus): boolean {
  return status === 'failed' || status === 'canceled' || status === 'skipped'
}

export function isFinalWorkflow(status: WorkflowStatus): boolean {
  return status === 'completed' || status === 'failed' || status === 'canceled'
}

/** How one order for a step stands. `signed`: what became of what was signed for it; undefined: nothing was. */
export type Attempt = {
  status: OrderStatus
  error: OrderError | undefined
  signed: ReservationState | undefined
  /** Its seller settles before the agent runs, so a run that failed may be paid for (D45). */
  settlesFirst?: boolean | undefined
}

/** How often a step has been tried with the agent at work, and whom it may ask beside. */
export type Chances = {
  tries: number
  retries: number
  fallbacksLeft: number
  /** The workflow's rule: what is paid for, or may be, is bought again (D45). */
  rebuy?: boolean | undefined
}

export type Move =
  | { kind: 'wait' }
  | { kind: 'complete' }
  | { kind: 'retry'; inMs: number }
  /** `ifUnspent`: once the chain shows that the seller has not taken the money of which it says that it does not. */
  | { kind: 'fall back'; ifUnspent?: boolean }
  | { kind: 'fail' }
  | { kind: 'cancel' }

/**
 * What follows from how an order for a step stands.
 *
 * A step is bought again only where that cannot make it paid twice:
 * - from the same agent after an error that may pass, and only when nothing signed before can be settled any more: never
 *   signed, or released. Where it still could be, the step waits until that is decided.
 * - from another agent also when its seller itself has said that it failed, and so charges nothing, and the chain shows
 *   nothing else. What was signed counts against the budget until it is released.
 * - never when the money is gone, with or without a result, and not while its seller may have settled first: that is waited
 *   for, unless the workflow's rule says `rebuy` (D45).
 */
export function nextMove(attempt: Attempt, { tries, retries, fallbacksLeft, rebuy = false }: Chances): Move {
  const { status, error, signed, settlesFirst = false } = attempt
  if (status === 'completed') return { kind: 'complete' }
  if (status === 'cancelled') return { kind: 'cancel' }
  if (status !== 'failed') return { kind: 'wait' }
  if (signed === 'spent' && !rebuy) return { kind: 'fail' }
  const mayPass = error?.retryable === true && tries <= retries
  if (mayPass && signed !== 'reserved') return { kind: 'retry', inMs: retryDelayMs(tries) }
  if (fallbacksLeft > 0) {
    if (signed !== 'reserved' || rebuy) return { kind: 'fall back' }
    const mayBePaid = settlesFirst || error?.code === 'SETTLEMENT_FAILED'
    if (isSellersWord(error)) return mayBePaid ? { kind: 'wait' } : { kind: 'fall back', ifUnspent: true }
  }
  return mayPass ? { kind: 'wait' } : { kind: 'fail' }
}

function retryDelayMs(tries: number): number {
  return Math.min(RETRY_MS * 2 ** (tries - 1), RETRY_MS_MAX)
}

/** Only a seller's answer has one of these names. */
function isSellersWord(error: OrderError | undefined): boolean {
  return error !== undefined && Object.hasOwn(x402Errors, error.code)
}
