import type { UnixMs } from '../lib/clock.ts'
import type { ChannelWish } from '../schema/channel.ts'
import type { Hex } from '../schema/primitives.ts'
import type { WebOrder } from '../schema/web-purchase.ts'
import { toBytes } from './hex.ts'
import { type Query, run } from './query.ts'

export type OrderStatus = 'pending' | 'executing' | 'completed' | 'failed' | 'cancelled'
export type OrderError = { code: string; message: string; retryable: boolean }

/** One purchase, paid or free (D18). `price` is the most that the buyer pays, in atomic units. */
export type Order = {
  id: string
  agentId: string
  sellerId: string | undefined
  price: bigint
  status: OrderStatus
  task: string | undefined
  output: string | undefined
  /** The bytes of an output that is not UTF-8. `output` then shows the readable part. */
  outputBytes?: Uint8Array | undefined
  /** What was missing or unusual in the seller's response. */
  notes?: readonly string[] | undefined
  error: OrderError | undefined
  correlationId: string | undefined
  createdAt: UnixMs
  updatedAt: UnixMs
  /** When execution started; undefined if it started at creation. */
  startedAt?: UnixMs | undefined
  /** The workflow and the step that placed the order. */
  workflowId?: string | undefined
  stepId?: string | undefined
  cancelRequested?: boolean | undefined
  /** The API token that placed the order; undefined for the operator. */
  tokenId?: string | undefined
  /** The approval that the order waits or waited for. */
  approvalId?: string | undefined
  /** The agent's name at the time of the order. Its seller may take the agent off the market later. */
  agentName?: string | undefined
  /** The seller's name at the time of the order. */
  sellerName?: string | undefined
  /** The agent of this node for whose run the order was bought. */
  boughtFor?: BoughtFor | undefined
  /** What was wanted of payment channels. Undefined: the rule of the node. */
  channelWish?: 'always' | 'never' | undefined
  /** Set for an order at an x402 seller over HTTP. `agentId` is then the URL. */
  web?: WebOrder | undefined
}

/** The wish as an order keeps it. */
export function wishOf(channel: ChannelWish | undefined): Pick<Order, 'channelWish'> {
  return channel === undefined || channel === 'auto' ? {} : { channelWish: channel }
}

/** The run of an own agent that bought something. `run`: the same for each attempt. `paymentId`: the payment for a sold run. */
export type BoughtFor = { agentId: string; agentName: string; run: string; paymentId?: Hex }

export function isFinal(status: OrderStatus): boolean {
  return status !== 'pending' && status !== 'executing'
}

export type OrderRow = {
  no: number
  id: string
  agent_id: string
  seller_id: string | null
  price: number
  status: OrderStatus
  task: string | null
  output: string | null
  output_bytes: Uint8Array | null
  notes: string | null
  error: string | null
  correlation_id: string | null
  created_at: number
  updated_at: number
  started_at: number | null
  workflow_id: string | null
  step_id: string | null
  cancel_requested_at: number | null
  token_id: string | null
  approval_id: string | null
  agent_name: string | null
  seller_name: string | null
  for_agent: string | null
  for_agent_name: string | null
  for_run: string | null
  channel_wish: 'always' | 'never' | null
  web: string | null
}

/**
 * An ended order does not change, except that a paid result is stored whenever it arrives. An order with a cancel
 * request ends `cancelled` unless it brought a result, so callers need not check for the request.
 */
const UPSERT_ORDER = `
  INSERT INTO orders (id, agent_id, seller_id, price, status, task, output, error, correlation_id, created_at, updated_at,
    started_at, workflow_id, step_id, token_id, output_bytes, notes, agent_name, seller_name,
    for_agent, for_agent_name, for_run, for_payment, channel_wish, web, owner)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, seller_id = excluded.seller_id, task = excluded.task, output = excluded.output,
    output_bytes = excluded.output_bytes, notes = excluded.notes,
    agent_name = coalesce(orders.agent_name, excluded.agent_name),
    seller_name = coalesce(orders.seller_name, excluded.seller_name), web = coalesce(excluded.web, orders.web),
    error = excluded.error, correlation_id = excluded.correlation_id, updated_at = excluded.updated_at,
    status = CASE WHEN excluded.status = 'failed' AND orders.cancel_requested_at IS NOT NULL THEN 'cancelled'
                  ELSE excluded.status END
  WHERE (orders.status IN ('pending', 'executing') OR (excluded.status = 'completed' AND orders.status <> 'completed'))`
/** Does not end an order whose authorization was released: see `finish` in purchases.ts. */
const UPSERT_HELD = `${UPSERT_ORDER}
    AND NOT EXISTS (SELECT 1 FROM authorizations a WHERE a.order_no = orders.no AND a.state = 'released')`

/** What the end of an order changes, by the rules of `UPSERT_ORDER`: its task, for one, is not written again. */
const END_ORDER = `
  UPDATE orders SET owner = ?, output = ?, output_bytes = ?, notes = ?, error = ?, updated_at = ?,
    agent_name = coalesce(agent_name, ?), seller_name = coalesce(seller_name, ?),
    status = CASE WHEN cancel_requested_at IS NOT NULL THEN ? ELSE ? END
  WHERE no = ? AND (status IN ('pending', 'executing') OR (CAST(? AS TEXT) = 'completed' AND status <> 'completed'))`

/** About how many bytes the task and the output of an order take. */
export function sizeOf({ task, output, outputBytes }: Order): number {
  return (task?.length ?? 0) + (output?.length ?? 0) + (outputBytes?.length ?? 0)
}

/** Stores the end of an order that is in the ledger, by its number. */
export function endOrder(no: number, order: Order, process: string): Query<number> {
  const { status, error, notes = [], updatedAt, agentName, sellerName } = order
  return run(
    END_ORDER,
    ...[process, order.output ?? null, order.outputBytes ?? null, notes.length === 0 ? null : JSON.stringify(notes)],
    ...[error === undefined ? null : JSON.stringify(error), updatedAt, agentName ?? null, sellerName ?? null],
    ...[status === 'failed' ? 'cancelled' : status, status, no, status],
  )
}

/** Stores an order, or its progress. @param process who works on it, or will */
export const putOrder = (order: Order, process: string) => put(UPSERT_ORDER, order, process)

/** Like `putOrder`. An order whose authorization was released stays as it is. */
export const putHeldOrder = (order: Order, process: string) => put(UPSERT_HELD, order, process)

function put(sql: string, order: Order, process: string): Query<number> {
  return run(
    sql,
    order.id,
    order.agentId,
    order.sellerId ?? null,
    order.price,
    order.status,
    order.task ?? null,
    order.output ?? null,
    order.error === undefined ? null : JSON.stringify(order.error),
    order.correlationId ?? null,
    order.createdAt,
    order.updatedAt,
    order.startedAt ?? null,
    order.workflowId ?? null,
    order.stepId ?? null,
    order.tokenId ?? null,
    order.outputBytes ?? null,
    order.notes === undefined || order.notes.length === 0 ? null : JSON.stringify(order.notes),
    order.agentName ?? null,
    order.sellerName ?? null,
    order.boughtFor?.agentId ?? null,
    order.boughtFor?.agentName ?? null,
    order.boughtFor?.run ?? null,
    order.boughtFor?.paymentId === undefined ? null : toBytes(order.boughtFor.paymentId),
    order.channelWish ?? null,
    order.web === undefined ? null : JSON.stringify(order.web),
    process,
  )
}

export function toOrder(row: OrderRow): Order {
  return {
    id: row.id,
    agentId: row.agent_id,
    sellerId: row.seller_id ?? undefined,
    ...(row.agent_name !== null && { agentName: row.agent_name }),
    ...(row.seller_name !== null && { sellerName: row.seller_name }),
    price: BigInt(row.price),
    status: row.status,
    task: row.task ?? undefined,
    output: row.output ?? undefined,
    outputBytes: row.output_bytes ?? undefined,
    notes: row.notes === null ? undefined : (JSON.parse(row.notes) as string[]),
    error: row.error === null ? undefined : (JSON.parse(row.error) as OrderError),
    correlationId: row.correlation_id ?? undefined,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    startedAt: row.started_at ?? undefined,
    workflowId: row.workflow_id ?? undefined,
    stepId: row.step_id ?? undefined,
    cancelRequested: row.cancel_requested_at !== null || undefined,
    tokenId: row.token_id ?? undefined,
    approvalId: row.approval_id ?? undefined,
    ...(row.channel_wish !== null && { channelWish: row.channel_wish }),
    ...(row.web !== null && { web: JSON.parse(row.web) as WebOrder }),
    ...(row.for_run !== null && {
      boughtFor: { agentId: row.for_agent!, agentName: row.for_agent_name!, run: row.for_run },
    }),
  }
}
