import { doubledMs } from '../../lib/retry.ts'
import { STEPS_AT_ONCE_MAX } from '../../schema/limits.ts'
import type { StepStatus, WorkflowStatus } from '../../schema/workflow.ts'
import type { OrderError, OrderStatus } from '../../store/order-row.ts'
import type { ReservationState } from '../../store/purchases.ts'
import { chargeAfter } from '../outcome.ts'

const RETRY = { firstMs: 1_000, mostMs: 30_000 }

/** The fields of a step that decide how its workflow goes on. */
type StepProgress = { id: string; status: StepStatus; dependsOn: readonly string[] }

/** Returns the steps that may begin: their dependencies are completed, no step failed, and there is room. */
export function stepsToBegin<S extends StepProgress>(steps: readonly S[]): S[] {
  if (steps.some(({ status }) => isFruitless(status))) return []
  const completed = new Set(steps.filter(({ status }) => status === 'completed').map(({ id }) => id))
  const room = STEPS_AT_ONCE_MAX - steps.filter(({ status }) => status === 'running').length
  return steps
    .filter(({ status, dependsOn }) => status === 'pending' && dependsOn.every((id) => completed.has(id)))
    .slice(0, Math.max(0, room))
}

/** Returns the steps that will never begin. After a failed step, nothing more is bought. */
export function stepsToSkip<S extends StepProgress>(steps: readonly S[]): S[] {
  if (!steps.some(({ status }) => isFruitless(status))) return []
  return steps.filter(({ status }) => status === 'pending')
}

/** Derives the status of a workflow from its steps. Not for canceled workflows, which stay canceled. */
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

/** The state of one order for a step. `signed`: the state of its payment; undefined if nothing was signed. */
export type Attempt = {
  status: OrderStatus
  error: OrderError | undefined
  signed: ReservationState | undefined
  /** The seller settles before its agent runs, so a failed run may be charged (D45). */
  settlesFirst?: boolean | undefined
}

/** How often the current agent was tried, and how many fallback agents are left. */
type Chances = {
  tries: number
  retries: number
  fallbacksLeft: number
  /** The workflow's rule: buy again even if an earlier order was or may be charged (D45). */
  rebuy?: boolean | undefined
}

type Move =
  | { kind: 'wait' }
  | { kind: 'complete' }
  | { kind: 'retry'; inMs: number }
  /** `ifUnspent`: only after the chain shows that the seller did not take the money. */
  | { kind: 'fall back'; ifUnspent?: boolean }
  | { kind: 'fail' }
  | { kind: 'cancel' }

/**
 * Decides what follows from the state of an order for a step.
 *
 * A step is bought again only if it cannot be charged twice:
 * - From the same agent after a retryable error, if no earlier payment can still be settled. That is: nothing was
 *   signed, or the payment was released. Otherwise the step waits until that is decided.
 * - From a fallback agent also after a failure that the seller itself reported. Then the seller charges nothing, and
 *   the chain must not show a charge. The signed amount counts against the budget until it is released.
 * - Never if the money is gone, with or without a result. If the seller may have settled first, or may get the payment yet,
 *   the step waits. The workflow's `rebuy` rule overrides both (D45).
 */
export function nextMove(attempt: Attempt, { tries, retries, fallbacksLeft, rebuy = false }: Chances): Move {
  const { status, error, signed, settlesFirst = false } = attempt
  if (status === 'completed') return { kind: 'complete' }
  if (status === 'cancelled') return { kind: 'cancel' }
  if (status !== 'failed') return { kind: 'wait' }
  if (signed === 'spent' && !rebuy) return { kind: 'fail' }
  const mayPass = error?.retryable === true && tries <= retries
  if (mayPass && signed !== 'reserved') return { kind: 'retry', inMs: doubledMs(tries, RETRY) }
  if (fallbacksLeft > 0) {
    if (signed !== 'reserved' || rebuy) return { kind: 'fall back' }
    const charge = chargeAfter(error?.code, settlesFirst)
    if (charge !== 'unknown') return charge === 'possible' ? { kind: 'wait' } : { kind: 'fall back', ifUnspent: true }
  }
  return mayPass ? { kind: 'wait' } : { kind: 'fail' }
}
