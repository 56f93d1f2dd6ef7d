import type { UnixMs } from '../lib/clock.ts'
import type { ChannelWish } from '../schema/channel.ts'
import type { WebOrder, WebWish } from '../schema/web-purchase.ts'
import type { StepStatus, WorkflowStatus } from '../schema/workflow.ts'
import type { OrderError, OrderStatus } from './order-row.ts'
import type { ReservationState } from './reservation-row.ts'
import type { RowOf } from './row.ts'

/** A request to a seller over HTTP but for its task. */
export type StepAtUrl = Pick<WebWish, 'url' | 'method' | 'headers'> & Pick<WebOrder, 'expected'>

/** A step ready to run: every choice is made. */
export type StepPlan = {
  id: string
  /** The agents to ask: the named agent first, then its fallbacks. */
  agents: readonly string[]
  /** What the first agent is, if it is an x402 seller over HTTP. */
  web?: StepAtUrl | undefined
  /** A template. */
  input: string
  dependsOn: readonly string[]
  /** In atomic units. */
  maxPrice: bigint | undefined
  retries: number
  /** True: a purchase that was or may have been charged is bought again (D45). */
  rebuy?: boolean | undefined
  /** What its orders want of payment channels. */
  channel?: ChannelWish | undefined
}

export type StoredStep = StepPlan & {
  /** In atomic units, as listed when the workflow was created. */
  price: bigint
  status: StepStatus
  /** The index of the current agent in `agents`, and how often it has been asked. */
  agent: number
  tries: number
  /** The latest order of the step. */
  orderId: string | undefined
  /** Why the step failed, or why the latest attempt of a running step placed no order. */
  error: OrderError | undefined
  refusedAt: UnixMs | undefined
  startedAt: UnixMs | undefined
  endedAt: UnixMs | undefined
}

export type StoredWorkflow = {
  id: string
  name: string | undefined
  input: string
  /** In atomic units. */
  budget: bigint | undefined
  status: WorkflowStatus
  createdAt: UnixMs
  updatedAt: UnixMs
  /** The API token that created the workflow; undefined for the operator. */
  tokenId: string | undefined
  /** Rises with each change. A change is stored only if no other one came before it. */
  revision: number
  steps: StoredStep[]
}

/** An order of a step, and the payment signed for it. */
export type StepAttempt = {
  orderId: string
  status: OrderStatus
  error: OrderError | undefined
  updatedAt: UnixMs
  /** Undefined: nothing was signed. */
  signed: ReservationState | undefined
  settlesFirst: boolean
}
export type WorkflowRow = Omit<RowOf<StoredWorkflow>, 'steps'> & { no: number }
export type StepRow = Omit<RowOf<StoredStep>, keyof StepPlan | 'error'> & {
  workflowNo: number
  id: string
  plan: string
  error: string | null
}
export type AttemptRow = Omit<RowOf<StepAttempt>, 'error' | 'settlesFirst'> & {
  error: string | null
  settlesFirst: number | null
}

export function toWorkflow({ no, ...row }: WorkflowRow, ofSteps: readonly StepRow[]): StoredWorkflow {
  return {
    ...row,
    name: row.name ?? undefined,
    budget: row.budget === null ? undefined : BigInt(row.budget),
    tokenId: row.tokenId ?? undefined,
    steps: ofSteps.filter(({ workflowNo }) => workflowNo === no).map(toStep),
  }
}

export function toAttempt({ error, signed, settlesFirst, ...row }: AttemptRow): StepAttempt {
  return {
    ...row,
    error: error === null ? undefined : (JSON.parse(error) as OrderError),
    signed: signed ?? undefined,
    settlesFirst: settlesFirst === 1,
  }
}

type WrittenPlan = Omit<StepPlan, 'id' | 'maxPrice'> & { maxPrice?: string }

/** The parts of a step that never change, as JSON. */
export function writePlan({ agents, web, input, dependsOn, maxPrice, retries, rebuy, channel }: StepPlan): string {
  const plan: WrittenPlan = { agents, web, input, dependsOn, retries, rebuy, channel }
  return JSON.stringify({ ...plan, ...(maxPrice !== undefined && { maxPrice: maxPrice.toString() }) })
}

function toStep({ plan: written, workflowNo: _no, ...row }: StepRow): StoredStep {
  const { maxPrice, ...plan } = JSON.parse(written) as WrittenPlan
  return {
    ...row,
    ...plan,
    maxPrice: maxPrice === undefined ? undefined : BigInt(maxPrice),
    price: BigInt(row.price),
    orderId: row.orderId ?? undefined,
    error: row.error === null ? undefined : (JSON.parse(row.error) as OrderError),
    refusedAt: row.refusedAt ?? undefined,
    startedAt: row.startedAt ?? undefined,
    endedAt: row.endedAt ?? undefined,
  }
}
