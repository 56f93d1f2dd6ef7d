import type { ChannelState } from '../../chain/batch-settlement.ts'
import type { Clock, Moment, UnixMs } from '../../lib/clock.ts'
import { Hold } from '../../lib/hold.ts'
import type { Logger } from '../../lib/logger.ts'
import { backoffMs } from '../../lib/retry.ts'
import { idle } from '../../lib/wait.ts'
import type { Charge } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { SellerChannelStore, StoredSellerChannel } from '../../store/seller-channels.ts'
import { isLedgerAway } from '../../store/store-error.ts'
import type { AskedCall } from './call-turn.ts'
import { ChannelsBusy, elsewhere } from './channel-refused.ts'
import {
  type AgreedRefund,
  type Ask,
  type AskedRefund,
  type CallEnd,
  type ChannelSums,
  type End,
  isNews,
  judgeTurn,
  type Queued,
  type Turn,
} from './channel-turn.ts'
import { type RefundAsk, releaseCall, type SellerChannel } from './seller-channel.ts'
import { channelOf, isStoredAs, recordOf } from './seller-record.ts'

const BACKOFF = { firstMs: 50, mostMs: 5_000 }

type OpenChannelDeps = {
  clock: Clock
  logger: Logger
  chainId: number
  store: Pick<SellerChannelStore, 'take' | 'save' | 'charge' | 'giveUp'>
  /** A peer sent a voucher whose signature is wrong. */
  blame(peerId: string): void
  /** Aborts when the node stops. */
  stopping: AbortSignal
}

/**
 * A channel that this process has, in memory. What comes in one turn of the event loop is one change: the calls that ended
 * and their charges, the best voucher, and the calls that may begin. While the change is being stored, the next one
 * gathers. Nobody hears of a change before it is on disk.
 */
export class OpenChannel {
  readonly id: Hex
  readonly #deps: OpenChannelDeps
  readonly #gone: (channel: OpenChannel) => void
  #record: StoredSellerChannel
  #sums: ChannelSums
  #seenAt: Moment | undefined
  #seen: ChannelState | undefined
  #asks: Ask[] = []
  #ends: End[] = []
  #refunds: AskedRefund[] = []
  #isWorking = false
  #isWanted = false
  #holds = 0
  #isKeeping = false
  /** Why it takes no calls: the ledger is away, or another process has the channel. */
  #closed: unknown
  /** Ends whose callers heard that the ledger is away, and that are not stored yet. */
  readonly #kept = new Set<End>()
  /** Called when what was kept while the ledger was away is stored, or never will be. */
  #whenStored: (() => void)[] = []

  /** @param gone called when this process has lost the channel */
  constructor(record: StoredSellerChannel, deps: OpenChannelDeps, gone: (channel: OpenChannel) => void) {
    this.id = record.id
    this.#deps = deps
    this.#gone = gone
    this.#record = record
    this.#sums = { peerId: record.peerId, channel: channelOf(record) }
  }

  get channel(): SellerChannel {
    return this.#sums.channel
  }

  /** When this process has read the channel on the chain. Undefined: never. */
  get seenAt(): Moment | undefined {
    return this.#seenAt
  }

  /** When the ledger was told of something new in it, such as a call or a claim. */
  get changedAt(): UnixMs {
    return this.#record.usedAt
  }

  get #isIdle(): boolean {
    return !this.#isWorking && this.#sums.channel.asked === 0n && this.#queued === 0 && this.#holds === 0
  }

  /** Keeps the channel here until the end of the block: somebody is about to use it. */
  hold(): Hold {
    this.#holds++
    return new Hold(() => {
      this.#holds--
      if (this.#isWanted) this.#work()
    })
  }

  /** Takes nothing more: another object may stand for this channel from now on. @returns false if it is in use */
  retire(): boolean {
    if (!this.#isIdle) return false
    this.#closed ??= new ChannelsBusy('this seller works on too many channels now')
    return true
  }

  /** True while calls have ended that the ledger cannot store: their charges are not in the sums yet. */
  get isKeeping(): boolean {
    return this.#isKeeping
  }

  get #queued(): number {
    return this.#asks.length + this.#ends.length + this.#refunds.length
  }

  /** Takes in a reading of the chain that began at `at`. It counts from the next turn on. */
  seen(state: ChannelState, at: Moment): void {
    // A wall clock that was set back must not hide what came after it: a withdrawal, say.
    if (this.#seenAt !== undefined && at.monotonic < this.#seenAt.monotonic) return
    if (this.#closed instanceof ChannelsBusy) return
    this.#seenAt = at
    this.#seen = state
    this.#work()
  }

  /** Reserves what a call may cost. Its voucher is on disk when it resolves. @throws ChannelRefused, StoreError */
  take(call: AskedCall): Promise<void> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed)
    return new Promise((resolve, reject) => {
      this.#asks.push({ ...call, resolve, reject })
      this.#work()
    })
  }

  /**
   * Ends a call. Its charge and its result are on disk when it resolves.
   *
   * @throws ChannelRefused if another process has the channel: nothing was charged. StoreError while the ledger is away: the
   * end is kept, and `untilStored` resolves when it is stored
   */
  end(ended: CallEnd): Promise<Charge | undefined> {
    return new Promise((resolve, reject) => {
      this.#ends.push({ ...ended, resolve, reject })
      this.#work()
    })
  }

  /** Agrees to a refund of what is free. It is on disk when it resolves. @throws ChannelRefused, StoreError */
  agreeToRefund(ask: RefundAsk): Promise<AgreedRefund> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed)
    return new Promise((resolve, reject) => {
      this.#refunds.push({ ...ask, resolve, reject })
      this.#work()
    })
  }

  /** Resolves when all that was kept while the ledger was away is stored, or never will be. */
  async untilStored(): Promise<void> {
    if (this.#isKeeping) await new Promise<void>((resolve) => void this.#whenStored.push(resolve))
  }

  /** Lets another process have the channel as soon as nothing runs on it. */
  wanted(): void {
    this.#isWanted = true
    this.#work()
  }

  #work(): void {
    if (this.#isWorking) return
    this.#isWorking = true
    setImmediate(() => void this.#run())
  }

  async #run(): Promise<void> {
    while (this.#queued > 0 || this.#seen !== undefined) await this.#turn()
    this.#isWorking = false
    if (this.#isWanted && this.#isIdle) await this.#giveUp()
  }

  async #turn(): Promise<void> {
    const [asks, ends, refunds] = [this.#asks, this.#ends, this.#refunds]
    this.#asks = []
    this.#ends = []
    this.#refunds = []
    await this.#settle({ asks, ends, refunds })
    for (const end of ends) this.#kept.delete(end)
    // What came while the ledger was away goes with the next turn.
    if (this.#isKeeping && this.#kept.size === 0) this.#keptNothing()
  }

  async #settle(queued: Pick<Queued, 'asks' | 'ends' | 'refunds'>): Promise<void> {
    const { asks, ends, refunds } = queued
    const { chainId, blame } = this.#deps
    try {
      const { turn, blamed } = judgeTurn(this.#sums, { ...queued, seen: this.#seen, closed: this.#closed }, chainId)
      this.#seen = undefined
      for (const peerId of blamed) blame(peerId)
      const isStored = await this.#store(turn)
      if (isStored) {
        this.#sums = turn.next
        if (this.#isKeeping) this.#closed = undefined
        for (const { end, charge } of turn.ended) end.resolve(charge)
        for (const ask of turn.taken) ask.resolve()
        for (const { refund, given } of turn.agreed) refund.resolve(given)
      } else this.#lose(turn)
    } catch (error) {
      for (const waiting of [...asks, ...refunds]) waiting.reject(error)
      // The one that the ledger refuses must not take the results and charges of the others with it.
      if (ends.length > 1) for (const end of ends) await this.#settle({ asks: [], ends: [end], refunds: [] })
      else this.#fail(ends, error)
    }
  }

  #fail(ends: Queued['ends'], error: unknown): void {
    this.#deps.logger.error({ err: error }, 'calls on a channel failed')
    let { channel } = this.#sums
    for (const { asked } of ends) channel = releaseCall(channel, asked)
    this.#sums = { ...this.#sums, channel }
    for (const end of ends) end.reject(error)
  }

  /**
   * Stores a turn, unless nothing in it is to be stored. While the ledger is away it tries again until the turn is stored: a
   * result must not be lost.
   *
   * @returns false if this process has lost the channel, or the node stops
   */
  async #store(turn: Turn): Promise<boolean> {
    const { store, stopping, clock } = this.#deps
    const { calls } = turn
    const record = recordOf(turn.next, this.#record, { now: clock.now(), seenAt: this.#seenAt?.wall })
    if (calls.length === 0 && !isNews(record, this.#record)) return true
    const { seq: seqBefore } = this.#record
    for (let failures = 0; ; failures++) {
      try {
        const isStored = await (calls.length === 0
          ? store.save(record, seqBefore)
          : store.charge(record, seqBefore, { calls, now: clock.now() }))
        if (!isStored && !(failures > 0 && (await this.#wasStored(record)))) return false
        this.#record = record
        return true
      } catch (error) {
        if (!isLedgerAway(error)) throw error
        if (failures === 0) this.#keep(turn, error)
        if (!(await idle(backoffMs(failures + 1, BACKOFF), stopping))) return false
      }
    }
  }

  /** Tells all who wait that the ledger is away. What has ended is kept, and what would have begun does not. */
  #keep(turn: Turn, error: unknown): void {
    this.#deps.logger.warn({ err: error }, 'calls on a channel could not be stored: what has ended is kept')
    this.#isKeeping = true
    this.#closed = error
    let { channel } = turn.next
    for (const { asked } of turn.taken) channel = releaseCall(channel, asked)
    turn.next = { ...turn.next, channel }
    for (const end of this.#ends) this.#kept.add(end)
    const ends = [...turn.ended.map(({ end }) => end), ...this.#ends]
    const refunds = [...turn.agreed.map(({ refund }) => refund), ...this.#refunds]
    for (const waiting of [...turn.taken, ...this.#asks, ...ends, ...refunds]) waiting.reject(error)
    turn.taken = []
    this.#asks = []
    this.#refunds = []
  }

  #keptNothing(): void {
    this.#isKeeping = false
    for (const resolve of this.#whenStored.splice(0)) resolve()
  }

  /** A change may be stored although the connection was lost before anybody said so. */
  async #wasStored(record: StoredSellerChannel): Promise<boolean> {
    const taken = await this.#deps.store.take(this.id)
    return taken?.isOwn === true && isStoredAs(record, taken.channel)
  }

  /** Another process has the channel. What has ended here was not charged, and its result is not kept. */
  #lose({ taken, ended, agreed }: Turn): void {
    this.#closed = elsewhere()
    const others = [...ended.map(({ end }) => end), ...agreed.map(({ refund }) => refund), ...this.#refunds]
    for (const waiting of [...taken, ...this.#asks, ...others]) waiting.reject(this.#closed)
    this.#asks = []
    this.#refunds = []
    this.#gone(this)
  }

  async #giveUp(): Promise<void> {
    this.#closed = elsewhere()
    await this.#deps.store.giveUp(this.id).catch((err: unknown) => {
      this.#deps.logger.warn({ err }, 'could not give a channel to another process')
    })
    this.#gone(this)
  }
}
