import type { Chain } from '../chain/chain.ts'
import { paidFor } from '../ledger/received-receipt.ts'
import { type Clock, monotonicOf } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { MarketError, NodeStopping } from '../listings/market-error.ts'
import { askChainAfter, type PaymentChain } from '../payments/chain-verdict.ts'
import type { FramedStream } from '../protocols/framed-stream.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { StreamPool } from '../protocols/streams.ts'
import { askX402Result } from '../protocols/x402/client.ts'
import { networkText } from '../schema/network-kind.ts'
import type { Order, Purchases, StoredReservation } from '../store/purchases.ts'
import { confirmOnChain } from './confirm-on-chain.ts'
import { onStream } from './on-stream.ts'
import { notePaidBack } from './paid-back.ts'
import { formOf, isLastWord, notesOf, readResponse } from './purchase.ts'
import { lookAgain, lookAgainWhereDue } from './second-look.ts'

const INTERVAL_MS = 15_000
const INTERVAL_MIN_MS = 2_000
const ASK_TIMEOUT_MS = 20_000
/** Looked at in one turn. Those that failed stay open until they have expired, and must not hide the others. */
const BATCH_MAX = 512
/** Sellers that are asked at once: one that is slow to answer holds up few. */
const ASKED_MAX = 8
/** How long the chain is asked whether a purchase was charged. Its window has ended long before. */
const CONFIRM_WAIT_MS = 7 * 24 * 60 * 60 * 1000
/** How soon after a purchase the chain is asked for it. */
const SOON_MS = 1_000
/** The chain's clock may lag behind ours; an authorization is judged this long after its window. */
const EXPIRY_MARGIN_MS = 30_000
/** A seller keeps a result this long after settlement (D32), and settlement ends with the window. */
const RESULT_KEPT_MS = 24 * 60 * 60 * 1000
/** Without a chain to ask, a reservation is counted as spent after this. */
const UNKNOWN_LIMIT_MS = 24 * 60 * 60 * 1000

export type RecoveryDeps = {
  clock: Clock
  logger: Logger
  purchases: Purchases
  streams: StreamPool
  callerDid: string
  /** Orders that this process works on: not ours to touch. */
  active: { has(orderId: string): boolean }
  /** Told when an order has ended, or what was signed for it has. */
  changed(orderId: string): void
  addrsOf(agentId: string): readonly string[]
  /** What its seller calls an agent. */
  resourceOf?(agentId: string): string
  /** The one network of this node. What was signed on another waits until the node is back there (D37). */
  network: string
  chain?: (PaymentChain & Partial<Pick<Chain, 'hasMoved'>>) | undefined
}

/**
 * Brings every signed purchase to its end that lost its caller: the process died, or the answer did not come in time.
 *
 * While the payment can be settled the seller is asked for the result (D32). Once it no longer can, the chain says
 * whether it was: a reservation is given back to the budget only when it is certain that it was not. An order that is
 * paid and has no result stays in doubt: the seller is asked with growing pauses as long as it keeps results (D44).
 */
export class Recovery implements Service {
  readonly name = 'recovery'
  readonly #deps: RecoveryDeps
  readonly #stopping = new AbortController()
  readonly #asked = new Map<string, { at: number; delayMs: number }>()
  #timer: NodeJS.Timeout | undefined
  #turn: Promise<void> = Promise.resolve()
  #isSweeping = false
  #isSoon = false

  constructor(deps: RecoveryDeps) {
    this.#deps = deps
  }

  async start(): Promise<void> {
    const { purchases, clock } = this.#deps
    await purchases.reopenUnsigned(clock.now())
    this.#schedule(0)
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new NodeStopping())
    clearTimeout(this.#timer)
    await this.#turn
  }

  /** Looks after purchases a second from now at the latest: one has just ended. */
  soon(): void {
    if (this.#timer === undefined || this.#isSoon) return
    this.#isSoon = true
    if (this.#isSweeping) return
    clearTimeout(this.#timer)
    this.#schedule(SOON_MS)
  }

  #schedule(inMs: number): void {
    if (this.#stopping.signal.aborted) return
    this.#timer = setTimeout(() => {
      this.#isSoon = false
      this.#isSweeping = true
      this.#turn = this.#sweep()
        .catch((err: unknown) => {
          this.#deps.logger.error({ err }, 'open purchases could not be read; they are read again')
          return INTERVAL_MIN_MS
        })
        .then((waitMs) => {
          this.#isSweeping = false
          this.#schedule(this.#isSoon ? SOON_MS : waitMs)
        })
    }, inMs)
    this.#timer.unref()
  }

  /** Looks after every purchase that is due. @returns how long until the next one is */
  async #sweep(): Promise<number> {
    const { purchases, clock, active, logger, network } = this.#deps
    const open = purchases.reserved(BATCH_MAX, network)
    const claimed = purchases.unconfirmed(clock.now() - CONFIRM_WAIT_MS, BATCH_MAX, network)
    const found = [...open, ...claimed, ...purchases.unreceived(BATCH_MAX, network)]
    const byOrder = new Map(found.map((reservation) => [reservation.orderId, reservation]))
    const ours = [...byOrder.values()].filter(({ orderId }) => !active.has(orderId))
    const due = ours.filter((reservation) => this.#isDue(reservation))
    const lookAfterNext = async (): Promise<void> => {
      for (let next = due.shift(); next !== undefined; next = due.shift()) {
        const { orderId } = next
        if (this.#stopping.signal.aborted) return
        await this.#step(next).catch((error: unknown) => {
          const ids = { order_id: orderId, correlation_id: purchases.order(orderId)?.correlationId }
          logger.warn({ ...ids, err: error }, 'a purchase could not be looked after')
        })
      }
    }
    await Promise.all([lookAgainWhereDue(network, this.#deps), ...Array.from({ length: ASKED_MAX }, lookAfterNext)])
    const waits = ours.map((reservation) => this.#waitFor(reservation))
    return Math.max(INTERVAL_MIN_MS, Math.min(INTERVAL_MS, ...waits))
  }

  /**
   * Asks the seller of an order at once what became of it. The order says how that ended; so does `changed`.
   *
   * @throws MarketError NETWORK_MISMATCH: the seller and the chain of another network are not asked (D37)
   */
  async look(orderId: string): Promise<void> {
    const reservation = this.#deps.purchases.reservationOf(orderId)
    if (reservation === undefined || this.#deps.active.has(orderId)) return
    const { network } = reservation.requirements
    if (network !== this.#deps.network) {
      const why = `order ${orderId} was signed for on ${networkText(network)}, and this node runs on another network`
      throw new MarketError('NETWORK_MISMATCH', `${why}: start it with --network ${network} to ask what became of it`)
    }
    // What counts as not charged may have been: the chain is asked before the seller.
    if (reservation.state === 'released') await lookAgain(reservation, this.#deps)
    await this.#step(this.#deps.purchases.reservationOf(orderId) ?? reservation, { requested: true })
  }

  /** @param options `requested`: a person asks, so the seller is asked even for an order that has failed */
  async #step(reservation: StoredReservation, options: { requested?: boolean } = {}): Promise<void> {
    const { purchases, clock } = this.#deps
    const { state, txHash, confirmation, validBeforeSeconds } = reservation
    const order = purchases.order(reservation.orderId)
    const now = clock.now()
    const isReceived = order?.status === 'completed'
    const isWanted = order?.status === 'executing' || state === 'spent' || options.requested === true
    const isConfirmed = confirmation === 'chain'
    if (order !== undefined && (isReceived ? txHash === undefined && !isConfirmed : isWanted)) {
      if (await this.#askSeller(order, reservation)) return
    }
    const isOver = now > validBeforeSeconds * 1000 + EXPIRY_MARGIN_MS
    if (state === 'spent' && !isConfirmed && (await confirmOnChain(reservation, isOver, this.#deps)) === 'released')
      return
    const isFirst = reservation.settlesFirst === true && (order?.status === 'failed' || order?.status === 'cancelled')
    // Settled first, whatever came of the run: that is known long before the window ends (D45).
    if (state === 'reserved' && (isOver || isFirst)) return this.#askChain(order, reservation)
    if (!isOver) return
    const isKept = now <= validBeforeSeconds * 1000 + RESULT_KEPT_MS
    if (state === 'spent' && !isReceived && !isKept) await this.#giveUp(order, reservation)
  }

  /** True when the seller has answered for good and nothing is left to do. */
  async #askSeller(order: Order, reservation: StoredReservation): Promise<boolean> {
    const { purchases, clock, streams, callerDid, addrsOf } = this.#deps
    const seller = { peerId: reservation.sellerId, addrs: addrsOf(reservation.agentId) }
    const { agentId } = reservation
    const resource = this.#deps.resourceOf?.(agentId) ?? agentId
    const call = {
      ...{ correlationId: order.correlationId ?? order.id, resource, callerDid, form: formOf(resource) },
      ...(order.task !== undefined && { task: order.task }),
    }
    const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(ASK_TIMEOUT_MS)])
    try {
      const ask = (stream: FramedStream) => askX402Result(stream, call, reservation.envelope, signal)
      const response = await onStream(seller, streams, signal, ask, { urgent: true })
      const delivered = readResponse(response)
      const { output, outputBytes, txHash } = delivered
      if (order.status === 'completed') {
        if (txHash === undefined) return false
        await purchases.setTxHash(reservation.paymentId, txHash, clock.now())
      } else {
        const notes = notesOf(response, reservation, delivered)
        const bought = { output, outputBytes, notes, error: undefined, updatedAt: clock.now() }
        const completed: Order = { ...order, status: 'completed', ...bought }
        await purchases.finish(
          completed,
          paidFor(response, { ...reservation, agentId: resource }, order.task ?? '', this.#deps.logger),
        )
      }
      this.#deps.changed(order.id)
      return true
    } catch (error) {
      const { refundTx } = error as PeerError
      if (refundTx !== undefined && (await notePaidBack(reservation, refundTx, this.#deps))) return true
      // What is paid for is asked for again, whatever the seller says of it now.
      const mayFail = order.status === 'executing' && reservation.state === 'reserved'
      if (mayFail && error instanceof PeerError && isFinal(error)) {
        await this.#fail(order, error.code, error.message, error.retryable)
      }
      return false
    }
  }

  async #askChain(order: Order | undefined, reservation: StoredReservation): Promise<void> {
    const { purchases, clock, logger, chain } = this.#deps
    const { authorization } = reservation.envelope.payload!
    const asset = reservation.requirements.asset
    const verdict = chain && (await askChainAfter(chain, asset, authorization))
    const waited = clock.now() - reservation.validBeforeSeconds * 1000
    const known = verdict !== undefined && verdict.kind !== 'unknown'
    if (!known && waited < UNKNOWN_LIMIT_MS) return
    // The order first: a crash in between leaves the reservation open, and this is done again.
    if (verdict?.kind === 'unpaid' || verdict?.kind === 'never') {
      if (order?.status === 'executing')
        await this.#fail(order, 'SELLER_FAILED', 'no result came, and nothing was charged')
      await purchases.resolve(reservation.paymentId, 'released', undefined, clock.now())
      this.#deps.changed(reservation.orderId)
      return
    }
    const ids = { order_id: reservation.orderId, correlation_id: order?.correlationId }
    const txHash = verdict?.kind === 'paid' ? verdict.txHash : undefined
    // Whatever the seller said before, it has taken the money: it may have the result after all (T23).
    const ended = order?.status === 'failed' || order?.status === 'cancelled'
    if (txHash !== undefined && ended && (await this.#askSeller(order, reservation))) return
    if (txHash === undefined && order?.status === 'executing') {
      await this.#fail(order, 'SELLER_FAILED', 'no result came; the chain could not be asked')
    }
    logger.warn({ ...ids, tx_hash: txHash }, 'paid, or not known to be unpaid, without a result')
    await purchases.resolve(reservation.paymentId, 'spent', txHash, clock.now())
    this.#deps.changed(reservation.orderId)
  }

  /** The seller no longer keeps the result. A person may still have it asked for. */
  async #giveUp(order: Order | undefined, { paymentId, txHash }: StoredReservation): Promise<void> {
    if (order?.status === 'executing') {
      const proof = txHash === undefined ? 'the chain could not be asked' : `the payment was settled in ${txHash}`
      const message = `no result came in the 24 h that a seller keeps it; ${proof}; stoa payment retry asks once more`
      await this.#fail(order, 'SELLER_FAILED', message)
    }
    await this.#deps.purchases.stopAsking(paymentId)
  }

  async #fail(order: Order, code: string, message: string, retryable = false): Promise<void> {
    const { purchases, clock, changed } = this.#deps
    await purchases.finish({ ...order, status: 'failed', error: { code, message, retryable }, updatedAt: clock.now() })
    changed(order.id)
  }

  /** Each purchase is looked at less and less often: a seller that is gone costs little. */
  #isDue(reservation: StoredReservation): boolean {
    if (this.#waitFor(reservation) > 0) return false
    const { orderId } = reservation
    const last = this.#asked.get(orderId)
    this.#asked.delete(orderId)
    const at = monotonicOf(this.#deps.clock)
    this.#asked.set(orderId, { at, delayMs: Math.min((last?.delayMs ?? 1_000) * 2, 10 * 60 * 1000) })
    if (this.#asked.size > 10_000) this.#asked.delete(this.#asked.keys().next().value!)
    return true
  }

  /**
   * How long until the next look, by the monotonic clock: one that is set must not stop the looks.
   *
   * The end of its window is not waited beyond: what is released then may be what a retry waits for.
   */
  #waitFor({ orderId, validBeforeSeconds }: StoredReservation): number {
    const last = this.#asked.get(orderId)
    if (last === undefined) return 0
    const { clock } = this.#deps
    const sinceLast = monotonicOf(clock) - last.at
    const toExpiry = validBeforeSeconds * 1000 + EXPIRY_MARGIN_MS + 1 - clock.now()
    const wait = last.delayMs - sinceLast
    return toExpiry + sinceLast > 0 ? Math.min(wait, toExpiry) : wait
  }
}

/** The seller has never seen the payment, or the run failed: nothing more will come. */
function isFinal(error: PeerError): boolean {
  return isLastWord(error) || error.code === 'PAYMENT_REQUIRED'
}
