import type { Service } from '../lib/lifecycle.ts'
import { MarketError, NodeStopping } from '../listings/market-error.ts'
import { askChainAfter } from '../payments/chain-verdict.ts'
import type { PeerError } from '../protocols/peer-error.ts'
import type { StreamPool } from '../protocols/streams.ts'
import { askX402Result } from '../protocols/x402/client.ts'
import { networkText } from '../schema/network-kind.ts'
import type { OpenPurchase } from '../store/open-purchases.ts'
import type { OrderStore } from '../store/orders.ts'
import type { Order, StoredReservation } from '../store/purchases.ts'
import { StoreError } from '../store/store-error.ts'
import type { Channels } from './channels/channels.ts'
import { recoverCall } from './channels/recover-call.ts'
import { confirmNow, confirmOnChain } from './confirm-on-chain.ts'
import { EXPIRY_MARGIN_MS, OpenChecks } from './open-checks.ts'
import { failOrder, giveUp, isForgotten, lastWordOn } from './order-end.ts'
import { notePaidBack } from './paid-back.ts'
import { formOf } from './purchase.ts'
import { notesOf, paidFor, readResponse } from './response.ts'
import { lookAgain, lookAgainWhereDue, type PaymentCheckDeps } from './second-look.ts'
import { ASK_TIMEOUT_MS, inLanes, learnSettlements } from './settlements.ts'
import { onStream } from './stream-lease.ts'
import { type SendAgainDeps, sendAgain } from './web/send-again.ts'

const INTERVAL_MS = 15_000
const INTERVAL_MIN_MS = 2_000
/** Delay after a purchase before the chain is asked. */
const SOON_MS = 1_000
/** If the chain cannot be asked, a reservation counts as spent after this time. */
const UNKNOWN_LIMIT_MS = 24 * 60 * 60 * 1000

const NOTHING_CHARGED = { code: 'SELLER_FAILED', message: 'no result came, and nothing was charged' }
const CHAIN_SILENT = { code: 'SELLER_FAILED', message: 'no result came; the chain could not be asked' }

type RecoveryDeps = PaymentCheckDeps &
  SendAgainDeps & {
    streams: StreamPool
    callerDid: string
    /** Payment channels of this process. */
    channels?: Pick<Channels, 'line' | 'load'> | undefined
    /** Orders that this process works on. The recovery does not touch them. */
    active: { has(orderId: string): boolean }
    /** The processes that share the ledger. An order is looked after by the one that works on it. */
    workers: Pick<OrderStore, 'workerOf' | 'askWorker'>
    addrsOf(agentId: string): readonly string[]
    /** Returns the seller's own name for an agent. */
    resourceOf?(agentId: string): string
    /** The network of this node. Payments on another network wait until the node runs there again (D37). */
    network: string
  }

/**
 * Brings every signed purchase without a caller to its end. The process may have died, or the answer may be late. While
 * the payment can be settled, asks the seller for the result (D32). After that, asks the chain whether it was settled,
 * and releases a reservation only if the chain proves that it was not. An order that is paid and has no result stays in
 * doubt. The seller is asked with growing pauses as long as it keeps results (D44).
 */
export class Recovery implements Service {
  readonly name = 'recovery'
  readonly #deps: RecoveryDeps
  readonly #stopping = new AbortController()
  readonly #checks: OpenChecks
  #timer: NodeJS.Timeout | undefined
  #turn: Promise<void> = Promise.resolve()
  #isSweeping = false
  #isSoon = false

  constructor(deps: RecoveryDeps) {
    this.#deps = deps
    this.#checks = new OpenChecks(deps)
  }

  async start(): Promise<void> {
    const { purchases, clock } = this.#deps
    await purchases.takeOver(clock.now())
    await this.#deps.channels?.load()
    this.#schedule(0)
  }

  /** Goes on with the purchases of processes that have ended. */
  async takeOver(): Promise<void> {
    const { purchases, clock } = this.#deps
    await purchases.takeOver(clock.now())
    await this.#deps.channels?.load()
    this.soon()
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new NodeStopping())
    clearTimeout(this.#timer)
    await this.#turn
  }

  /**
   * Checks purchases within 1 s. Called when a signed purchase has ended or is in doubt.
   *
   * @param payment `named`: the result came and the seller named its transaction. Then only a chain has more to say.
   */
  soon(payment: 'open' | 'named' = 'open'): void {
    if (payment === 'named' && this.#deps.chain === undefined) return
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
          this.#deps.logger.error({ err }, 'open purchases could not be read; the node reads them again in 2 s')
          return INTERVAL_MIN_MS
        })
        .then((waitMs) => {
          this.#isSweeping = false
          this.#schedule(this.#isSoon ? SOON_MS : waitMs)
        })
    }, inMs)
    this.#timer.unref()
  }

  /** Checks every purchase that is due. @returns ms until the next purchase is due */
  async #sweep(): Promise<number> {
    const { purchases, logger, network, active } = this.#deps
    const { signal } = this.#stopping
    const { due, all } = await this.#checks.next(signal)
    const lookAfter = async ({ orderId }: OpenPurchase): Promise<void> => {
      const reservation = await purchases.reservationOf(orderId)
      // A caller may have begun to work on it since the list was read.
      if (reservation === undefined || active.has(orderId)) return
      await this.#step(reservation).catch(async (error: unknown) => {
        const order = await purchases.order(orderId).catch(() => undefined)
        const ids = { order_id: orderId, correlation_id: order?.correlationId }
        logger.warn({ ...ids, err: error }, 'an open purchase could not be checked')
      })
    }
    const lookAfterAll = (some: OpenPurchase[]) => inLanes(some, lookAfter, signal)
    const { unnamed = [], others = [] } = Object.groupBy(due, ({ list }) => (list === 'unnamed' ? list : 'others'))
    const named = learnSettlements(unnamed, this.#deps, signal).then(lookAfterAll)
    await Promise.all([lookAgainWhereDue(network, this.#deps), lookAfterAll(others), named])
    return Math.max(INTERVAL_MIN_MS, this.#checks.waitFor(all, INTERVAL_MS))
  }

  /**
   * Asks the seller of an order what became of it. The result is in the order and reported by `changed`.
   *
   * @throws MarketError NETWORK_MISMATCH: the payment was signed on another network, where nothing is asked (D37)
   */
  async look(orderId: string): Promise<void> {
    const reservation = await this.#deps.purchases.reservationOf(orderId)
    if (reservation === undefined || this.#deps.active.has(orderId)) return
    const { workers } = this.#deps
    if ((await workers.workerOf(orderId)) === 'elsewhere') return workers.askWorker(orderId)
    const { network } = reservation.requirements
    if (network !== this.#deps.network) {
      const why = `order ${orderId} was signed for on ${networkText(network)}, and this node runs on another network`
      throw new MarketError(
        'NETWORK_MISMATCH',
        `${why}: start the node with --network ${network} to ask for the outcome`,
      )
    }
    // A payment released earlier may have been charged after all. Ask the chain before the seller.
    if (reservation.state === 'released' && reservation.channel === undefined) await lookAgain(reservation, this.#deps)
    await this.#step((await this.#deps.purchases.reservationOf(orderId)) ?? reservation, { requested: true })
  }

  /** Asks the chain once about the payment of a received result. */
  confirm = (orderId: string) => confirmNow(orderId, this.#deps)

  /** @param options `requested`: a person asks, so ask the seller even if the order has failed */
  async #step(reservation: StoredReservation, options: { requested?: boolean } = {}): Promise<void> {
    const { purchases, clock } = this.#deps
    const { state, txHash, confirmation, validBeforeSeconds } = reservation
    const order = await purchases.order(reservation.orderId)
    // The chain knows nothing of a call on a channel: only its seller is asked.
    if (reservation.channel !== undefined && order !== undefined)
      return recoverCall(order, reservation, this.#askOf(order, reservation), this.#deps)
    const now = clock.now()
    const isReceived = order?.status === 'completed'
    const isWanted = order?.status === 'executing' || state === 'spent' || options.requested === true
    const isConfirmed = confirmation === 'chain'
    const isOver = now > validBeforeSeconds * 1000 + EXPIRY_MARGIN_MS
    if (order !== undefined && isReceived && state === 'spent' && !isConfirmed) {
      return this.#learnSettlement(order, reservation, { ...options, isOver })
    }
    if (order !== undefined && (isReceived ? txHash === undefined && !isConfirmed : isWanted)) {
      if (await this.#askSeller(order, reservation)) return
    }
    if (state === 'spent' && !isConfirmed && (await confirmOnChain(reservation, isOver, this.#deps)) === 'released')
      return
    const isFirst = reservation.settlesFirst === true && (order?.status === 'failed' || order?.status === 'cancelled')
    // A seller that settles first has charged even for a failed run. Ask the chain before the window ends (D45).
    if (state === 'reserved' && (isOver || isFirst)) return this.#askChain(order, reservation)
    if (!isOver) return
    if (state === 'spent' && !isReceived && (await isForgotten(reservation, this.#deps)))
      await giveUp(order, reservation, this.#deps)
  }

  /**
   * Learns by which transaction a received result was paid (D46). The chain is asked first: the seller would send the
   * whole result again.
   */
  async #learnSettlement(
    order: Order,
    reservation: StoredReservation,
    { isOver, requested = false }: { isOver: boolean; requested?: boolean },
  ): Promise<void> {
    const shown = await confirmOnChain(reservation, isOver, this.#deps)
    const isMissing = reservation.txHash === undefined && (shown === 'unknown' || (shown === 'open' && requested))
    if (isMissing) await this.#askSeller(order, reservation)
  }

  /** What is asked of the seller of an order, and where. */
  #askOf(order: Order, { agentId, sellerId }: StoredReservation) {
    const { callerDid, addrsOf } = this.#deps
    const seller = { peerId: sellerId, addrs: addrsOf(agentId) }
    const resource = this.#deps.resourceOf?.(agentId) ?? agentId
    const call = {
      ...{ correlationId: order.correlationId ?? order.id, resource, callerDid, form: formOf(resource) },
      ...(order.task !== undefined && { task: order.task }),
      ...(this.#deps.sendGate && { beforePayment: this.#deps.sendGate }),
    }
    const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(ASK_TIMEOUT_MS)])
    return { seller, call, resource, signal }
  }

  /** Returns true if the seller's answer is final and nothing is left to do. */
  async #askSeller(order: Order, reservation: StoredReservation): Promise<boolean> {
    const { purchases, clock, streams } = this.#deps
    if (order.web !== undefined) return sendAgain(order, reservation, this.#deps, this.#stopping.signal)
    const { seller, call, resource, signal } = this.#askOf(order, reservation)
    try {
      const response = await onStream(
        { seller, streams, urgent: true },
        ({ stream }) => askX402Result(stream, call, reservation.envelope, signal),
        signal,
      )
      const delivered = readResponse(response)
      const { output, outputBytes, txHash } = delivered
      if (order.status === 'completed') {
        if (txHash === undefined) return false
        await purchases.setTxHash(reservation, txHash, clock.now())
      } else {
        const notes = notesOf(response, reservation, delivered)
        const bought = { output, outputBytes, notes, error: undefined, updatedAt: clock.now() }
        const completed: Order = { ...order, status: 'completed', ...bought }
        const content = { ...delivered, task: order.task ?? '' }
        const paid = paidFor(response, { ...reservation, agentId: resource }, content, this.#deps.logger)
        await purchases.finish(completed, paid)
      }
      this.#deps.changed(order.id)
      return true
    } catch (error) {
      // The seller may well have answered: what it said is not stored.
      if (error instanceof StoreError) throw error
      const { refundTx } = error as PeerError
      if (refundTx !== undefined && (await notePaidBack(reservation, refundTx, this.#deps))) return true
      const last = await lastWordOn(order, { error, reservation }, this.#deps)
      if (last !== undefined) await failOrder(order, last, this.#deps)
      return false
    }
  }

  async #askChain(order: Order | undefined, reservation: StoredReservation): Promise<void> {
    const { purchases, clock, logger, chain } = this.#deps
    const { authorization } = reservation.envelope.payload!
    const asset = reservation.requirements.asset
    const verdict = chain && (await askChainAfter({ asset, authorization }, chain))
    const waited = clock.now() - reservation.validBeforeSeconds * 1000
    const known = verdict !== undefined && verdict.kind !== 'unknown'
    // Our clock may run days ahead. As long as the chain says that it may pay, nothing ends.
    const mayPay = verdict?.kind === 'unknown' && verdict.mayPay === true
    if (!known && (mayPay || waited < UNKNOWN_LIMIT_MS)) return
    // Update the order first. After a crash in between, the reservation is still open and this step runs again.
    if (verdict?.kind === 'unpaid' || verdict?.kind === 'never') {
      if (order?.status === 'executing') await failOrder(order, NOTHING_CHARGED, this.#deps)
      await purchases.resolve(reservation, 'released', undefined, clock.now())
      this.#deps.changed(reservation.orderId)
      return
    }
    const ids = { order_id: reservation.orderId, correlation_id: order?.correlationId }
    const txHash = verdict?.kind === 'paid' ? verdict.txHash : undefined
    // The seller took the money, although it reported a failure. It may have the result after all (T23).
    const ended = order?.status === 'failed' || order?.status === 'cancelled'
    if (txHash !== undefined && ended && (await this.#askSeller(order, reservation))) return
    if (txHash === undefined && order?.status === 'executing') {
      await failOrder(order, CHAIN_SILENT, this.#deps)
    }
    logger.warn({ ...ids, tx_hash: txHash }, 'a purchase without a result counts as paid')
    await purchases.resolve(reservation, 'spent', txHash, clock.now())
    this.#deps.changed(reservation.orderId)
  }
}
