import { largest, smallest } from '../../lib/bigints.ts'
import { BoundedMap } from '../../lib/bounded-map.ts'
import { faultPoint } from '../../lib/fault-point.ts'
import { createLane } from '../../lib/lane.ts'
import {
  adoptStatement,
  type BuyerChannel,
  countStated,
  dropCall,
  growCall,
  owedAtMost,
  planCalls,
  raiseMark,
  reopenAtBuyer,
  seenByBuyer,
  sendCalls,
} from '../../payments/channels/buyer-channel.ts'
import type { ChannelSigner } from '../../payments/channels/channel-keys.ts'
import { spendableOf } from '../../payments/channels/seller-channel.ts'
import type { ChannelPayment, ChannelStatement, SignedVoucher } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { BuyerChannels, DepositUnderWay, LoadedChannel, Moved } from '../../store/buyer-channels.ts'
import type { Leaving } from '../../store/leaving.ts'
import { ChannelShort } from './channel-short.ts'
import { provenStatement } from './proven-statement.ts'
import { signCeiling } from './sign-ceiling.ts'
import type { WaitingCall, WantedCall } from './wanted-call.ts'

/** Calls that share one voucher at most. */
const TURN_MAX = 256
/** Calls whose charge is remembered: as many as wait to be stored at most (ledger/unstored-ends.ts). */
const COUNTED_MAX = 10_000

type LineDeps = {
  store: Pick<BuyerChannels, 'raiseMark' | 'adopt'>
  signer: ChannelSigner
  chainId: number
  stopped(line: ChannelLine, why: string): void
}

/**
 * One channel of this process while it runs: the only place where its vouchers are signed.
 *
 * Calls of one turn of the event loop share one voucher, and the next commit. Writing lets later calls gather. The orders of
 * the calls, and the mark, are on disk before the signature (ADR-32, ADR-35).
 */
export class ChannelLine {
  readonly sellerId: string
  readonly network: string
  deposit: DepositUnderWay | undefined
  agentId: string | undefined
  /** Set: no new call is paid by this channel. */
  leaving: Leaving | undefined
  closedAt: number | undefined
  usedAt: number
  moved: Moved
  readonly createdAt: number
  #channel: BuyerChannel
  readonly #deps: LineDeps
  readonly #waiting: WaitingCall[] = []
  /** The number of each call's charge. A result that could not be stored is asked for again, and comes with its charge. */
  readonly #counted = new BoundedMap<string, number>(COUNTED_MAX)
  #isTurning = false
  /** One after the other: a lower mark that reaches the disk last would leave it below what was signed. */
  readonly #marking = createLane()
  /** Whether the seller has answered for this channel, so that it knows its terms. */
  #isKnown = false

  constructor(stored: LoadedChannel, deps: LineDeps) {
    const { sellerId, network, deposit, usedAt, createdAt, agentId, leaving, closedAt, moved, ...channel } = stored
    this.sellerId = sellerId
    this.network = network
    this.deposit = deposit
    this.usedAt = usedAt
    this.moved = moved
    this.createdAt = createdAt
    this.agentId = agentId
    this.leaving = leaving
    this.closedAt = closedAt
    this.#channel = reopenAtBuyer(channel)
    this.#deps = deps
  }

  get channel(): BuyerChannel {
    return this.#channel
  }

  get id(): Hex {
    return this.#channel.id
  }

  /** What new calls may cost. */
  get free(): bigint {
    return this.isOpen ? spendableOf(this.#channel) - owedAtMost(this.#channel) : 0n
  }

  /** True if it may pay new calls. */
  get isOpen(): boolean {
    return this.#channel.stopped === undefined && this.leaving === undefined
  }

  /** True if no call is under way, and none is being written to disk. Charges that came early are of calls that have ended. */
  get isQuiet(): boolean {
    const { inFlight, early } = this.#channel
    return !this.#isTurning && this.#waiting.length === 0 && inFlight.size <= early.size
  }

  /**
   * Pays a call: resolves when its reservation is on disk and a voucher covers it.
   *
   * @throws ChannelShort, and what `reserve` throws
   */
  pay(call: WantedCall): Promise<ChannelPayment> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...call, resolve, reject })
      if (this.#isTurning) return
      this.#isTurning = true
      queueMicrotask(() => process.nextTick(() => void this.#turns()))
    })
  }

  /**
   * The payment of a call that is in flight, with a voucher that covers all of them. If the deposits do not, because a
   * withdrawal has begun or a refund was given, the result is asked for with a lower one. @throws StoreError
   */
  async again(asked: bigint): Promise<ChannelPayment> {
    const plan = () => planCalls({ ...this.#channel, stopped: undefined }, [], 0n)
    const first = plan()
    if (first.ok && 'mark' in first && first.mark !== undefined) await this.#raise(first.mark)
    const planned = plan()
    if (!planned.ok) return this.#paymentOf(asked, this.forFunds().voucher)
    const voucher = 'voucher' in planned ? planned.voucher : this.#sign(planned.ceiling)
    this.#channel = sendCalls(this.#channel, [], voucher)
    return this.#paymentOf(asked, voucher)
  }

  /** Raises what a call in flight may cost. The mark covers all that it may, once. @throws ChannelShort, StoreError */
  async grow(call: string, { asked, most }: { asked: bigint; most: bigint }): Promise<SignedVoucher> {
    for (;;) {
      const grown = growCall(this.#channel, call, asked)
      const plan = planCalls(grown, [], 0n)
      if (!plan.ok) throw new ChannelShort(plan.reason)
      if (!('mark' in plan) || plan.mark === undefined) {
        const voucher = 'voucher' in plan ? plan.voucher : this.#sign(plan.ceiling)
        this.#channel = sendCalls(grown, [], voucher)
        return voucher
      }
      await this.#raise(smallest(plan.mark + most - asked, spendableOf(this.#channel)))
    }
  }

  /** What a request about the money of the channel carries: the smallest voucher that the seller can want, or that proves us. */
  forFunds(): Pick<ChannelPayment, 'voucher' | 'counted'> {
    const { voucher: last, mark, charged: total, seq, stopped } = this.#channel
    const owed = stopped === undefined ? owedAtMost(this.#channel) : 0n
    const voucher = last ?? this.#sign(smallest(largest(owed, 1n), mark))
    return { voucher, counted: { total, seq } }
  }

  /** Counts the charge of a call, as its seller states it. The ledger counts it by itself. */
  count(call: string, counted: Omit<Parameters<typeof countStated>[1], 'call'>, now: number): void {
    this.#isKnown = true
    this.usedAt = now
    const { seq = 0 } = counted.charge ?? {}
    if (this.#counted.get(call) === seq) return
    this.#set(countStated(this.#channel, { call, ...counted }))
    this.#counted.set(call, seq)
  }

  /** Counts a call as in flight that was reserved, and may have been sent. */
  hold(call: string, asked: bigint): void {
    if (this.#channel.inFlight.has(call) || this.#counted.has(call)) return
    this.#channel = { ...this.#channel, inFlight: this.#channel.inFlight.with(call, asked) }
  }

  /** Ends a call that was not charged. */
  drop(call: string): void {
    this.#channel = dropCall(this.#channel, call)
  }

  /** The seller does not know the terms of the channel. */
  forget(): void {
    this.#isKnown = false
  }

  seen(onChain: BuyerChannel['onChain']): void {
    this.#set(seenByBuyer(this.#channel, onChain))
  }

  stop(why: string): void {
    this.#set({ ...this.#channel, stopped: this.#channel.stopped ?? why })
  }

  /** Takes over the seller's count, if a voucher above the mark proves that this node has lost records. */
  async adopt(said: ChannelStatement): Promise<boolean> {
    const { mark, config } = this.#channel
    const statement = provenStatement(said, config, this.#deps.chainId)
    const take = (channel: BuyerChannel) => statement && adoptStatement(channel, statement, mark)
    return this.#marking(async () => {
      if (take(this.#channel) === undefined) return false
      // Charges may be here that are not on disk yet: each counts on as it is.
      await this.#deps.store.adopt(this.id, (stored) => take(reopenAtBuyer({ ...stored, inFlight: new Map() })))
      this.#set(take(this.#channel) ?? this.#channel)
      return true
    })
  }

  /** True if what the seller states cannot come from calls of this node. */
  isOverstated({ counted }: ChannelStatement): boolean {
    return counted !== undefined && counted.total > owedAtMost(this.#channel)
  }

  async #turns(): Promise<void> {
    while (this.#waiting.length > 0) await this.#turn(this.#waiting.splice(0, TURN_MAX))
    this.#isTurning = false
  }

  async #turn(calls: readonly WaitingCall[]): Promise<void> {
    const fitting = this.#fitting(calls)
    const plan = this.#plan(fitting)
    const mark = plan.ok && 'mark' in plan ? plan.mark : undefined
    // All of it goes to disk at once. What was reserved in a turn without its mark is never sent.
    const marked = mark === undefined ? undefined : this.#raise(mark)
    const reserved = await Promise.all(
      fitting.map(async (call) => {
        try {
          await Promise.all([call.reserve(), marked])
          return [call]
        } catch (error) {
          call.reject(error)
          return []
        }
      }),
    )
    faultPoint('buyer:call-reserved')
    this.#sendAll(reserved.flat())
  }

  #raise(mark: bigint): Promise<void> {
    return this.#marking(async () => {
      if (mark <= this.#channel.mark) return
      await this.#deps.store.raiseMark(this.id, mark)
      faultPoint('buyer:mark-raised')
      this.#channel = raiseMark(this.#channel, mark)
    })
  }

  /** The calls that the deposits cover, in their order. The others are refused. */
  #fitting(calls: readonly WaitingCall[]): WaitingCall[] {
    let asked = 0n
    const refusal = this.leaving && new ChannelShort('leaving')
    return calls.filter((call) => {
      if (refusal !== undefined) {
        call.reject(refusal)
        return false
      }
      const plan = planCalls(this.#channel, [asked + call.asked], 0n)
      if (plan.ok) asked += call.asked
      else call.reject(new ChannelShort(plan.reason))
      return plan.ok
    })
  }

  #plan(calls: readonly WaitingCall[]) {
    const [asked, ahead] = [calls.map((call) => call.asked), calls.map((call) => call.ahead)]
    return planCalls(this.#channel, asked, largest(0n, ...ahead))
  }

  #sendAll(calls: readonly WaitingCall[]): void {
    if (calls.length === 0) return
    try {
      const plan = this.#plan(calls)
      if (!plan.ok) throw new ChannelShort(plan.reason)
      const { mark } = this.#channel
      // Charges that came meanwhile do not raise it. What is above the mark waits for the next turn.
      const voucher = 'voucher' in plan ? plan.voucher : this.#sign(smallest(plan.ceiling, mark))
      faultPoint('buyer:call-signed')
      this.#channel = sendCalls(this.#channel, calls, voucher)
      for (const { asked, resolve } of calls) resolve(this.#paymentOf(asked, voucher))
    } catch (error) {
      for (const { reject } of calls) reject(error)
    }
  }

  #sign(ceiling: bigint): SignedVoucher {
    return signCeiling(this.#channel, ceiling, this.#deps)
  }

  #paymentOf(asked: bigint, voucher: SignedVoucher): ChannelPayment {
    const { charged: total, seq, config } = this.#channel
    return { ...(!this.#isKnown && { config }), voucher, counted: { total, seq }, asked }
  }

  #set(next: BuyerChannel): void {
    const { stopped } = this.#channel
    this.#channel = next
    if (stopped === undefined && next.stopped !== undefined) this.#deps.stopped(this, next.stopped)
  }
}
