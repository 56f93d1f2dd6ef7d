import { Hold } from '../../lib/hold.ts'
import { Lanes } from '../../lib/lane.ts'
import { Shares } from '../../lib/shares.ts'
import { TokenBuckets } from '../../lib/token-buckets.ts'
import { pause } from '../../lib/wait.ts'
import { channelCallId } from '../../payments/channels/call-id.ts'
import type { OpenChannel } from '../../payments/channels/open-channel.ts'
import type { SellerChannels } from '../../payments/channels/seller-channels.ts'
import { givenAt } from '../../payments/receipt.ts'
import { signatureTurn } from '../../payments/signature-turn.ts'
import { checkVoucher } from '../../payments/voucher.ts'
import { doorCaller } from '../../schema/door.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { ChannelPayload } from '../../schema/x402-http.ts'
import type { StoredPayment } from '../../store/payments.ts'
import { isLedgerAway } from '../../store/store-error.ts'
import { PeerError } from '../peer-error.ts'
import { sellOnChannel } from '../x402/channel-sale.ts'
import type { Caller, PaidRunDeps } from '../x402/exchange.ts'
import { resultOf } from '../x402/result.ts'
import { busy, type ChannelAnswer, corrected, ERROR, RESEND, refused, settledBy, tooMany } from './channel-answers.ts'
import { asKnown, baseOf, correlationOf, isShown, keptOpen, priceOf, unstored } from './channel-base.ts'
import { channelExtra } from './channel-extra.ts'
import { isMovedAway, lastWait, untilMoved } from './channel-moves.ts'
import type { PaymentCheck } from './payment-check.ts'

/** A request with a voucher. `boundTo`: a digest of what it pays for: method, path and body. */
type ChannelRequest = {
  agentId: string
  /** Not read for a refund. */
  input: string
  network: string
  payload: ChannelPayload
  boundTo: Uint8Array
  /** Why the buyer accepts other terms than are asked. A call that was charged, and a refund, are not asked. */
  mismatch?: string | undefined
  check?: PaymentCheck | undefined
}

/** Requests of one channel that wait for each other, and of all. */
const PER_CHANNEL_MAX = 32
const OPEN_MAX = 1_024
/** Requests of one voucher key. */
const RATE = { burst: 200, perSecond: 50, keysMax: 10_000 }
/** The same with vouchers that the chain shows: their payer sends one again for a result that was lost, or for a refund. */
const SHOWN_PER_CHANNEL_MAX = 4
const SHOWN_RATE = { burst: 20, perSecond: 5, keysMax: 10_000 }
/** Pause before a channel is waited for again. */
const MOVED_MS = 20

type ChannelDoorDeps = PaidRunDeps & { channels: SellerChannels }
type DoorCall = ChannelRequest & { id: Hex; channelId: Hex; caller: Caller; waitsUntil: number }

/**
 * Sells runs on payment channels to clients of x402's scheme `batch-settlement` over HTTP. They send no correlation ids and make
 * one call at a time: a voucher must be for exactly what was charged so far and the price. So the calls of one channel run one
 * after the other, and a voucher buys one run. The same voucher with the same request gets the stored result.
 *
 * The channels, and all that guards them, are those of calls over libp2p (channel-sale.ts).
 */
export class ChannelDoor {
  readonly #deps: ChannelDoorDeps
  readonly #lanes = new Lanes()
  readonly #ofPayer = { places: new Shares({ each: PER_CHANNEL_MAX }), rates: new TokenBuckets(RATE) }
  /** For vouchers that the chain shows. */
  readonly #ofAnybody = { places: new Shares({ each: SHOWN_PER_CHANNEL_MAX }), rates: new TokenBuckets(SHOWN_RATE) }
  readonly #stopping = new AbortController()
  #open = 0

  constructor(deps: ChannelDoorDeps) {
    this.#deps = deps
  }

  /** Never throws. */
  async sell(request: ChannelRequest): Promise<ChannelAnswer> {
    const { asset, clock, channels } = this.#deps
    const { network, payload } = request
    const { channelConfig: config, voucher } = payload
    if (network !== asset.network) return refused(`the network must be ${asset.network}`)
    await signatureTurn()
    const verdict = checkVoucher(config, voucher, asset.chainId)
    if (!verdict.ok) return refused(`${ERROR}voucher_signature: ${verdict.reason}`)
    const channelId = verdict.voucher.channelId as Hex
    // A voucher that the chain shows has limits of its own, so that others cannot use up the limits of its payer.
    const known = channels.owned(channelId)?.channel ?? (await channels.onDisk(channelId).catch(() => undefined))
    const isPublic = isShown(known, voucher.maxClaimableAmount)
    const { places, rates } = isPublic ? this.#ofAnybody : this.#ofPayer
    if (this.#open >= OPEN_MAX) return busy('this seller answers too many paid requests now', 'unknown')
    const place = places.take(channelId)
    if (!(place instanceof Hold)) return tooMany()
    using _place = place
    if (!rates.take(config.payerAuthorizer.toLowerCase(), 1, clock.now())) return tooMany()
    this.#open++
    try {
      // Anybody may sign for a channel without money, and for a deposit that is not there, and each takes questions to the RPC.
      const mayBeMadeUp = known === undefined || payload.type === 'deposit'
      const call = { ...this.#callOf(request, channelId), check: mayBeMadeUp ? request.check : undefined }
      const answer = await this.#lanes.run(channelId, () => this.#answer(call))
      if (answer.kind === 'sold') request.check?.paid()
      return answer
    } finally {
      this.#open--
    }
  }

  /** Resolves when nothing is sold. */
  async idle(): Promise<void> {
    while (this.#open > 0) await this.#lanes.ended()
  }

  /** Cancels what still runs: nobody is charged. */
  abort(reason: Error): void {
    this.#stopping.abort(reason)
  }

  #callOf(request: ChannelRequest, channelId: Hex): DoorCall {
    const { boundTo, payload } = request
    const { channelConfig: config, voucher } = payload
    const correlationId = correlationOf(voucher.maxClaimableAmount, boundTo)
    const id = channelCallId(channelId, correlationId)
    const caller: Caller = {
      // What is proved is the key that signs vouchers, and nobody is remembered.
      peerId: doorCaller('http', config.payerAuthorizer.toLowerCase()),
      callerDid: doorCaller('http', id),
      ...{ correlationId, signal: this.#stopping.signal, receiptForm: 'merkle' },
    }
    return { ...request, id, channelId, caller, waitsUntil: lastWait() }
  }

  /** Alone on its channel, as far as this door goes. Never throws. */
  async #answer(call: DoorCall): Promise<ChannelAnswer> {
    for (;;) {
      try {
        this.#stopping.signal.throwIfAborted()
        return await this.#attempt(call)
      } catch (error) {
        // The channel went to another process before the call began: wait for it again.
        const mayWait = isMovedAway(asKnown(error)) && performance.now() < call.waitsUntil
        if (mayWait && (await pause(MOVED_MS, this.#stopping.signal))) continue
        return (await this.#answeredElsewhere(call, error)) ?? this.#failure(call, error)
      }
    }
  }

  async #attempt(call: DoorCall): Promise<ChannelAnswer> {
    const { id, payload, channelId, caller, waitsUntil } = call
    const isRefund = payload.type === 'refund'
    const ended = async () => (isRefund ? undefined : this.#deps.payments.get(id))
    // What was charged is answered without the channel.
    let stored = await ended()
    if (stored === undefined && this.#deps.channels.owned(channelId) === undefined) {
      const ceiling = payload.voucher.maxClaimableAmount
      const wanted = { channelId, peerId: caller.peerId, ceiling, isRefund, waitsUntil }
      const unmoved = await untilMoved(wanted, this.#deps, this.#stopping.signal)
      stored = await ended()
      if (stored === undefined && unmoved !== undefined) return unmoved
    }
    if (stored !== undefined) return this.#again(stored, call)
    return unstored(call, this.#deps) ?? (isRefund ? this.#refund(call, payload) : this.#sell(call))
  }

  async #sell(call: DoorCall): Promise<ChannelAnswer> {
    const { agentId, payload, channelId, caller } = call
    const { channels } = this.#deps
    const agent = this.#deps.agents.find(agentId)
    if (agent === undefined) return { kind: 'unknown', reason: `this seller has no agent ${agentId}` }
    if (agent.amount === 0n || agent.isOnChannelsOnly === true) return refused('this agent is not sold so')
    if (call.mismatch !== undefined) return refused(call.mismatch)
    const price = priceOf(agent)
    const { channelConfig: config, voucher } = payload
    // Refuse before the deposit is sent, if a deposit would not help.
    const before = channels.owned(channelId)
    if (before !== undefined && baseOf(before, payload, price) === undefined) {
      return await this.#mismatch(before, call)
    }
    using checking = await call.check?.turn()
    const txHash = await this.#deposit(call, checking)
    const counted = { total: 0n, seq: 0 }
    await channels.know({ peerId: caller.peerId, payment: { config, voucher, counted } }, caller.signal)
    checking?.[Symbol.dispose]()
    const open = channels.owned(channelId)
    if (open === undefined) return busy('this channel moves to another process of this seller', 'unknown')
    const base = baseOf(open, payload, price)
    if (base === undefined) return await this.#mismatch(open, call)
    const payment = { config, voucher, counted: base, asked: price }
    const task = { id: call.id, payment, input: call.input, forgetsFailure: true as const }
    const sold = await sellOnChannel(agent, task, caller, this.#deps)
    if (sold === undefined) return this.#again((await this.#deps.payments.get(call.id))!, call)
    const at = givenAt(sold.receipt, this.#deps.clock.now())
    const settled = settledBy(channels.owned(channelId) ?? open, { charge: sold.charge, txHash, payload })
    return { kind: 'sold', output: sold.output, receipt: sold.receipt, at, payer: config.payer as Hex, settled }
  }

  /** Sends a deposit to the chain, before any work. Sent again, it is the same deposit. */
  async #deposit({ payload, channelId, caller, agentId }: DoorCall, checking: Hold | undefined): Promise<Hex | ''> {
    if (payload.type !== 'deposit') return ''
    const { channelFunds, channels, clock, logger } = this.#deps
    const { channelConfig: config, voucher, deposit } = payload
    const { amount, authorization } = deposit
    const isOver = clock.now() >= Number(authorization.erc3009Authorization.validBefore) * 1000
    if (channelFunds === undefined || (!channels.takesNew && isOver)) {
      throw new PeerError('PAYMENT_INVALID', 'this seller takes no deposits: nothing was sent')
    }
    // It may have been sent before the node was restarted. A client that is refused would sign another.
    if (!channels.takesNew) throw new PeerError('OVERLOADED', `this seller takes no deposits now. ${RESEND}`)
    const sent = { amount, authorization: authorization.erc3009Authorization }
    const onProved = () => checking?.[Symbol.dispose]()
    const asked = { peerId: caller.peerId, channelId, config, voucher, deposit: sent, onProved }
    const { txHash = '' } = await channelFunds.deposit(asked, caller.signal)
    logger.debug({ channel_id: channelId, agent_id: agentId }, 'a deposit came over HTTP')
    return txHash
  }

  /** The answer to a call that was charged before. */
  async #again(stored: StoredPayment, call: DoorCall): Promise<ChannelAnswer> {
    const { payload, caller, channelId, agentId } = call
    const charge = stored.channel?.charge
    if (stored.peerId !== caller.peerId || stored.agentId !== agentId || charge === undefined) {
      return { kind: 'failed', reason: 'this call has failed', settlement: 'none' }
    }
    const result = await resultOf(stored, caller, this.#deps)
    const at = givenAt(result.receipt, stored.createdAt)
    const settled = settledBy(this.#deps.channels.owned(channelId), { charge, txHash: '', payload })
    const payer = payload.channelConfig.payer as Hex
    return { kind: 'sold', output: result.output, receipt: result.receipt, at, payer, settled }
  }

  /** The answer to a call that another process has charged meanwhile, which may leave no room for it here. Never throws. */
  async #answeredElsewhere(call: DoorCall, error: unknown): Promise<ChannelAnswer | undefined> {
    if (!(error instanceof PeerError) || error.channel === undefined) return undefined
    const stored = await this.#deps.payments.get(call.id).catch(() => undefined)
    return stored && this.#again(stored, call).catch((thrown: unknown) => this.#failure(call, thrown))
  }

  async #refund(call: DoorCall, payload: Extract<ChannelPayload, { type: 'refund' }>): Promise<ChannelAnswer> {
    const { channelFunds, channels } = this.#deps
    const { channelConfig: config, voucher } = payload
    const { caller, channelId } = call
    if (channelFunds === undefined) return refused('this seller sends no refunds: take the escrow out on the chain')
    if (payload.amount !== undefined)
      return refused(`${ERROR}refund_amount_invalid: only all that is free is given back`)
    const payment = { config, voucher, counted: { total: 0n, seq: 0 } }
    using checking = await call.check?.turn()
    await channels.know({ peerId: caller.peerId, payment }, caller.signal)
    checking?.[Symbol.dispose]()
    const open = channels.owned(channelId)
    if (open === undefined) return busy('this channel moves to another process of this seller')
    if (voucher.maxClaimableAmount !== open.channel.charged) return corrected(open.channel)
    if (open.channel.onChain.balance <= open.channel.charged) return refused(`${ERROR}refund_no_balance`)
    const seen = { onChain: open.channel.onChain, usedAt: open.changedAt }
    const kept = keptOpen(seen, voucher.maxClaimableAmount, this.#deps.clock.now())
    if (kept !== undefined) return refused(kept)
    const moved = await channelFunds.refund({ peerId: caller.peerId, channelId, payment }, caller.signal)
    const { txHash = '', amount, onChain } = moved
    const extra = channelExtra({ ...open.channel, onChain })
    const settled = { txHash, amount, charge: undefined, extra } as const
    return { kind: 'refunded', payer: config.payer as Hex, settled }
  }

  /** The voucher is wrong for a new call. If another process has charged this call meanwhile, its client gets the result. */
  async #mismatch(open: OpenChannel, call: DoorCall): Promise<ChannelAnswer> {
    const stored = await this.#deps.payments.get(call.id)
    return stored === undefined ? corrected(open.channel) : this.#again(stored, call)
  }

  #failure({ id, channelId, payload }: DoorCall, thrown: unknown): ChannelAnswer {
    const error = asKnown(thrown)
    if (!(error instanceof PeerError)) {
      if (this.#stopping.signal.aborted) return busy('this seller stops', 'unknown')
      const isAway = isLedgerAway(error)
      this.#deps.logger[isAway ? 'warn' : 'error'](
        { err: error, payment_id: id },
        'a call on a channel failed inside the node',
      )
      return { kind: 'pending', reason: `this seller failed before it knew what became of the call. ${RESEND}` }
    }
    const { code, message, channel: statement } = error
    // That process may run this very call.
    if (statement?.reason === 'elsewhere') return busy(message, 'unknown')
    if (code === 'OVERLOADED') return busy(message)
    if (code === 'EXECUTION_FAILED') return { kind: 'failed', reason: message, settlement: 'none' }
    if (code === 'UNKNOWN_RESOURCE') return { kind: 'gone', reason: message, settlement: 'settled' }
    const open = this.#deps.channels.owned(channelId)
    if (statement?.reason === 'voucher' && open !== undefined) return corrected(open.channel)
    if (statement?.reason === 'balance') {
      // The deposit may land yet: a client that is told of a failure would sign another.
      if (payload.type === 'deposit') return { kind: 'pending', reason: `${message}. ${RESEND}` }
      // It reads the chain then, and fills the channel up.
      if (open !== undefined) return corrected(open.channel)
      return refused(`${ERROR}channel_not_found: ${message}`)
    }
    return refused(message)
  }
}
