import { signedPayment } from '../../ledger/payment-view.ts'
import { isoTime } from '../../lib/clock.ts'
import { formatPrice } from '../../schema/amount.ts'
import type { WorkflowRecord, WorkflowStep } from '../../schema/workflow.ts'
import type { Purchases } from '../../store/purchases.ts'
import type { StoredStep } from '../../store/workflow-row.ts'
import type { SeenWorkflow } from '../../store/workflows.ts'
import { amountsOf } from '../budget-rules.ts'

type Outcomes = Pick<Purchases, 'order' | 'reservationOf'>

/** A workflow as a list shows it: without long texts. */
export function briefWorkflow({ workflow, books, orders }: SeenWorkflow): WorkflowRecord {
  const { id, name, status, budget, createdAt, updatedAt, steps } = workflow
  const estimate = steps.reduce((total, { price }) => total + price, 0n)
  const failed = steps.find((step) => step.status === 'failed' && step.error !== undefined)
  return {
    id,
    ...(name !== undefined && { name }),
    status,
    ...(failed !== undefined && { error: { ...failed.error!, step_id: failed.id } }),
    ...(budget !== undefined && amountsOf('budget', budget)),
    ...amountsOf('estimate', estimate),
    ...amountsOf('paid', books.paid),
    ...amountsOf('held', books.held),
    ...amountsOf('not_charged', books.notCharged),
    ...amountsOf('spent', books.paid + books.held),
    steps: steps.map((step) => briefStep(step, orders)),
    created_at: isoTime(createdAt),
    updated_at: isoTime(updatedAt),
  }
}

/** The full record, with outputs and payments. */
export async function workflowRecord(seen: SeenWorkflow, purchases: Outcomes): Promise<WorkflowRecord> {
  const brief = briefWorkflow(seen)
  const steps = await Promise.all(brief.steps.map((step) => withOutcome(step, purchases)))
  const ends = steps.filter(({ id }) => !steps.some(({ depends_on }) => depends_on.includes(id)))
  const output = ends.length === 1 ? ends[0]!.output : undefined
  return { ...brief, input: seen.workflow.input, ...(output !== undefined && { output }), steps }
}

function briefStep(step: StoredStep, orders: readonly { id: string; stepId: string }[]): WorkflowStep {
  const [, ...fallback] = step.agents
  return {
    id: step.id,
    agent_id: step.agents[step.agent]!,
    ...(step.web !== undefined && { url: step.web.url }),
    status: step.status,
    input: step.input,
    depends_on: [...step.dependsOn],
    ...(step.maxPrice !== undefined && { max_price: formatPrice(step.maxPrice) }),
    retries: step.retries,
    fallback,
    ...(step.rebuy === true && { rebuy: true }),
    ...(step.channel !== undefined && { channel: step.channel }),
    ...amountsOf('price', step.price),
    order_ids: orders.filter(({ stepId }) => stepId === step.id).map(({ id }) => id),
    ...(step.error !== undefined && { error: step.error }),
    ...(step.startedAt !== undefined && { started_at: isoTime(step.startedAt) }),
    ...(step.endedAt !== undefined && { ended_at: isoTime(step.endedAt) }),
  }
}

/** Adds the outcome from the step's latest order. */
async function withOutcome(step: WorkflowStep, purchases: Outcomes): Promise<WorkflowStep> {
  const orderId = step.order_ids.at(-1)
  const order = orderId === undefined ? undefined : await purchases.order(orderId)
  if (order === undefined) return step
  const reservation = await purchases.reservationOf(order.id)
  return {
    ...step,
    ...(order.output !== undefined && { output: order.output }),
    // The error of the last attempt, while the step retries or waits.
    ...(step.status === 'running' && order.error !== undefined && step.error === undefined && { error: order.error }),
    ...(reservation !== undefined && { payment: signedPayment(reservation) }),
  }
}
