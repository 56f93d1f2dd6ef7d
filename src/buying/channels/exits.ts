import { ChainError } from '../../chain/rpc.ts'
import { monotonicOf } from '../../lib/clock.ts'
import { faultPoint } from '../../lib/fault-point.ts'
import type { Logger } from '../../lib/logger.ts'
import { type Periodic, periodic } from '../../lib/periodic.ts'
import { doubledMs } from '../../lib/retry.ts'
import { hasMoreToTake } from '../../payments/channels/buyer-exit.ts'
import { formatPrice } from '../../schema/amount.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { BuyerChannels, StoredChannel } from '../../store/buyer-channels.ts'
import type { ExitTrouble, Leaving } from '../../store/leaving.ts'
import type { ChannelLine } from './channel-line.ts'
import { type ExitStepDeps, type ExitTurn, takeExitStep } from './exit-step.ts'

const LOOK_MS = 1_000
/** Channels that are left at the same time. Each waits for its seller or for a transaction. */
const AT_ONCE_MAX = 8
const FAILED = { refund: { firstMs: 5_000, mostMs: 60_000 }, withdrawal: { firstMs: 15_000, mostMs: 15 * 60_000 } }
/** How long a channel that was closed is read on: a reorganization may take back how it was closed. */
export const CLOSED_READ_MS = 24 * 60 * 60_000

type ExitsOptions = {
  /** A channel that nobody has used for this long is left. */
  idleMs: number
}

type ExitsDeps = Omit<ExitStepDeps, 'store'> & {
  logger: Logger
  store: Pick<BuyerChannels, 'get' | 'seen' | 'leave' | 'noteExit' | 'close'>
  /** The channels of this process. */
  lines(): Iterable<ChannelLine>
  line(id: Hex): ChannelLine | undefined
}

/**
 * Leaves payment channels: asks their sellers for what is free, and takes out what they do not give (ADR-40). The process
 * that has a channel leaves it. What is next is read from the chain, so a process that was killed goes on where the chain is.
 */
export class ChannelExits {
  readonly #options: ExitsOptions
  readonly #deps: ExitsDeps
  readonly #turns: Periodic
  readonly #stopping = new AbortController()
  readonly #running = new Map<Hex, Promise<void>>()
  /** When a channel is looked at next, and when its seller was asked last, by the monotonic clock. */
  readonly #times = new Map<Hex, { nextAt: number; askedAt: number }>()

  constructor(options: ExitsOptions, deps: ExitsDeps) {
    this.#options = options
    this.#deps = deps
    this.#turns = periodic(
      { name: 'channel exits', firstMs: LOOK_MS, everyMs: LOOK_MS },
      {
        work: () => this.#look(),
        onError: (err) => deps.logger.warn({ err }, 'payment channels that are left could not be looked at'),
      },
    )
  }

  readonly name = 'channel exits'

  start(): Promise<void> {
    return this.#turns.start()
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the node is stopping'))
    await this.#turns.stop()
    await Promise.all(this.#running.values())
  }

  /** Looks at a channel soon, because something has changed. */
  soon(id: Hex): void {
    this.#times.delete(id)
    this.#turns.soon()
  }

  /**
   * Begins to leave a channel of any process of this buyer, or goes on in another way. No new call is paid by it from then
   * on. @returns the channel as it is stored now
   */
  async leave(id: Hex, wanted: Pick<Leaving, 'why' | 'way'>): Promise<StoredChannel | undefined> {
    const { store, clock } = this.#deps
    const now = clock.now()
    const stored = await store.leave(id, (channel) => leavingOf(channel, wanted, now), now)
    faultPoint('buyer:channel-leaving')
    if (stored !== undefined) this.#follow(id, stored)
    return stored
  }

  /** Another process has changed how a channel is left. */
  async followed(id: Hex): Promise<void> {
    const stored = await this.#deps.store.get(id)
    if (stored !== undefined) this.#follow(id, stored)
  }

  /** More has changed than can be named. */
  async followAll(): Promise<void> {
    for (const { id } of [...this.#deps.lines()]) await this.followed(id)
  }

  #follow(id: Hex, { leaving, closedAt }: StoredChannel): void {
    const line = this.#deps.line(id)
    if (line === undefined) return
    line.leaving = leaving
    line.closedAt = closedAt
    this.soon(id)
  }

  async #look(): Promise<void> {
    const now = monotonicOf(this.#deps.clock)
    for (const line of this.#deps.lines()) {
      await this.#judge(line)
      if (line.leaving === undefined || line.closedAt !== undefined || this.#running.has(line.id)) continue
      if (this.#running.size >= AT_ONCE_MAX || (this.#times.get(line.id)?.nextAt ?? now) > now) continue
      const running = this.#turn(line).finally(() => this.#running.delete(line.id))
      this.#running.set(line.id, running)
    }
  }

  /** Begins to leave a channel that nobody uses, that has stopped, or that was closed too early. */
  async #judge(line: ChannelLine): Promise<void> {
    const { clock, logger } = this.#deps
    if (line.leaving !== undefined) {
      if (line.closedAt === undefined || !hasMoreToTake(line.channel)) return
      logger.warn({ channel_id: line.id }, 'a payment channel that was closed has money again: it is taken out')
      await this.leave(line.id, line.leaving)
      return
    }
    const isStopped = line.channel.stopped !== undefined
    const isIdle = line.isQuiet && line.deposit === undefined && clock.now() - line.usedAt >= this.#options.idleMs
    if (!isStopped && !isIdle) return
    await this.leave(line.id, { why: isStopped ? 'stopped' : 'idle', way: 'refund' })
    const reason = line.channel.stopped ?? 'no call was paid by it for long'
    logger.info(
      { channel_id: line.id, peer_id: line.sellerId, reason },
      'this node takes its money out of a payment channel',
    )
  }

  /** Never rejects. */
  async #turn(line: ChannelLine): Promise<void> {
    const { clock, logger } = this.#deps
    const { signal } = this.#stopping
    const { id } = line
    const { askedAt } = this.#times.get(id) ?? { askedAt: Number.NEGATIVE_INFINITY }
    const began = monotonicOf(clock)
    const plan = (inMs: number, asked = askedAt) =>
      void this.#times.set(id, { nextAt: monotonicOf(clock) + inMs, askedAt: asked })
    try {
      const turn = await takeExitStep(line, { sinceAskMs: began - askedAt }, this.#deps, signal).catch(asTrouble)
      signal.throwIfAborted()
      const trouble = await this.#note(line, turn)
      const waitMs = trouble === undefined ? turn.inMs : doubledMs(trouble.count, FAILED[trouble.step])
      plan(waitMs, turn.hasAsked === true ? began : askedAt)
      if (turn.closed !== undefined) this.#times.delete(id)
    } catch (err) {
      plan(FAILED.withdrawal.firstMs)
      if (!signal.aborted) logger.warn({ channel_id: id, err }, 'a payment channel could not be left yet')
    }
  }

  /** Stores and tells what has changed. @returns what went wrong */
  async #note(line: ChannelLine, { trouble: found, closed }: ExitTurn): Promise<ExitTrouble | undefined> {
    const { store, clock, logger } = this.#deps
    const ids = { channel_id: line.id, peer_id: line.sellerId }
    const before = line.leaving?.trouble
    if (closed !== undefined) {
      const dust = closed.dust > 0n ? `, but ${formatPrice(closed.dust)} USDC that cost more than they are` : ''
      logger.info(ids, `a payment channel is closed: nothing is left in it to take out${dust}`)
    }
    // Why the seller gave no refund is of interest as long as the channel is left.
    if (found === undefined && (before === undefined || before.step === 'refund')) return undefined
    const count = before?.step === found?.step ? before!.count + 1 : 1
    const trouble = found && { ...found, count }
    await store.noteExit(line.id, { trouble }, clock.now())
    line.leaving = { ...line.leaving!, trouble }
    if (trouble !== undefined && count <= 2) {
      logger.warn({ ...ids, reason: trouble.reason }, 'a step of leaving a payment channel failed: it is tried again')
    }
    return trouble
  }
}

/** The chain could not be read. An error of the ledger, and the stop of the node, are no step of the channel. */
function asTrouble(error: unknown): ExitTurn {
  if (!(error instanceof ChainError)) throw error
  return { inMs: 0, trouble: { step: 'withdrawal', reason: error.message } }
}

/** What is stored of a channel that is to be left. Undefined: it is left already, in this way. */
function leavingOf(
  { leaving, closedAt }: StoredChannel,
  { why, way }: Pick<Leaving, 'why' | 'way'>,
  now: number,
): Leaving | undefined {
  if (leaving === undefined || closedAt !== undefined) return { why, way, since: now }
  return way === 'withdraw' && leaving.way !== way ? { ...leaving, way } : undefined
}
