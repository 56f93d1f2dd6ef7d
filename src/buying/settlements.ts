import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { StreamPool } from '../protocols/streams.ts'
import { askX402Result } from '../protocols/x402/client.ts'
import type { Hex } from '../schema/primitives.ts'
import { readSettlements, SETTLEMENTS_MAX } from '../schema/x402.ts'
import type { OpenPurchase } from '../store/open-purchases.ts'
import type { Purchases, ReservationOf } from '../store/purchases.ts'
import { StoreError } from '../store/store-error.ts'
import { formOf } from './purchase.ts'
import { onStream } from './stream-lease.ts'

export const ASK_TIMEOUT_MS = 20_000
/** Sellers asked at the same time. With several lanes, one slow seller delays few others. */
const ASKED_MAX = 8

type SettlementDeps = {
  clock: Clock
  logger: Logger
  purchases: Pick<Purchases, 'order' | 'reservationOf' | 'setTxHash'>
  streams: StreamPool
  callerDid: string
  addrsOf(agentId: string): readonly string[]
  /** Returns the seller's own name for an agent. */
  resourceOf?(agentId: string): string
  /** Called when the payment of an order has changed. */
  changed(orderId: string): void
}

/**
 * Learns the transactions of purchases that only the seller can name (D46).
 *
 * A question asks for the result of one purchase, because the payment proves who asks, and names up to 128 others. An older
 * seller answers about the one purchase only.
 *
 * @param unnamed purchases without a transaction
 * @returns the purchases to look after one by one
 */
export async function learnSettlements(
  unnamed: readonly OpenPurchase[],
  deps: SettlementDeps,
  stopping: AbortSignal,
): Promise<OpenPurchase[]> {
  const groups = [...Map.groupBy(unnamed, ({ sellerId }) => sellerId).values()].flatMap(split)
  const left = groups.filter(({ length }) => length === 1).flat()
  const questions = groups.filter(({ length }) => length > 1)
  await inLanes(questions, async (group) => void left.push(...(await ask(group, deps, stopping))), stopping)
  return left
}

/** Does the work of a queue, several pieces at a time. */
export async function inLanes<T>(queue: T[], work: (next: T) => Promise<void>, stopping: AbortSignal): Promise<void> {
  const lane = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined && !stopping.aborted; next = queue.shift()) await work(next)
  }
  await Promise.all(Array.from({ length: ASKED_MAX }, lane))
}

/** Groups of at most one purchase and those that its question names. */
function split(purchases: readonly OpenPurchase[]): OpenPurchase[][] {
  const size = 1 + SETTLEMENTS_MAX
  return Array.from({ length: Math.ceil(purchases.length / size) }, (_, index) =>
    purchases.slice(index * size, (index + 1) * size),
  )
}

/** Never throws. @returns the purchases of the group to look after one by one */
async function ask(group: OpenPurchase[], deps: SettlementDeps, stopping: AbortSignal): Promise<OpenPurchase[]> {
  const { logger, streams, callerDid, addrsOf } = deps
  const [first, ...others] = group
  try {
    const asked = await askable(first!, deps)
    if (asked === undefined) return group
    const { reservation, resource, correlationId } = asked
    const settlementsOf = others.map(({ paymentId }) => paymentId)
    const call = { correlationId, resource, callerDid, form: { wrapped: false }, settlementsOf }
    const seller = { peerId: reservation.sellerId, addrs: addrsOf(reservation.agentId) }
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(ASK_TIMEOUT_MS)])
    const response = await onStream(
      { seller, streams, urgent: true },
      ({ stream }) => askX402Result(stream, call, reservation.envelope, signal),
      signal,
    )
    const named = readSettlements(response.settlements)
    const hashes = new Map(named?.map(({ payment_id, tx_hash }) => [payment_id.toLowerCase(), tx_hash as Hex]))
    if (response.tx_hash !== '') hashes.set(reservation.paymentId, response.tx_hash)
    await Promise.all(group.map((purchase) => note(purchase, hashes.get(purchase.paymentId), deps)))
    return named === undefined ? others : []
  } catch (err) {
    // For example, the seller has dropped the result of the first one.
    if (err instanceof PeerError) return group
    // The seller cannot be reached, or the ledger: all wait for the next time.
    if (err instanceof StoreError) {
      logger.warn({ order_id: first!.orderId, err }, 'the transactions of open purchases could not be stored')
    }
    return []
  }
}

/** What the question about a purchase needs. Undefined if its transaction cannot be asked for in this way. */
async function askable({ orderId }: OpenPurchase, { purchases, resourceOf }: SettlementDeps) {
  const [reservation, order] = await Promise.all([purchases.reservationOf(orderId), purchases.order(orderId)])
  const isPaid = reservation?.state === 'spent' && reservation.txHash === undefined
  // A seller over HTTP cannot be asked without being asked for the run.
  if (!isPaid || order?.status !== 'completed' || order.web !== undefined) return undefined
  const resource = resourceOf?.(reservation.agentId) ?? reservation.agentId
  // The original node would take the question for a payment.
  if (formOf(resource).wrapped) return undefined
  return { reservation, resource, correlationId: order.correlationId ?? order.id }
}

async function note(purchase: ReservationOf, txHash: Hex | undefined, deps: SettlementDeps): Promise<void> {
  if (txHash === undefined) return
  const { purchases, clock, changed } = deps
  if ((await purchases.setTxHash(purchase, txHash, clock.now())) !== undefined) changed(purchase.orderId)
}
