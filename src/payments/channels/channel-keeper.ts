import type { ChannelReader } from '../../chain/batch-settlement.ts'
import type { Chain } from '../../chain/chain.ts'
import { type Clock, momentOf, monotonicOf } from '../../lib/clock.ts'
import { reasonOf } from '../../lib/errors.ts'
import type { Service } from '../../lib/lifecycle.ts'
import type { Logger } from '../../lib/logger.ts'
import { type Periodic, periodic } from '../../lib/periodic.ts'
import { doubledMs } from '../../lib/retry.ts'
import { within } from '../../lib/wait.ts'
import { formatPrice } from '../../schema/amount.ts'
import type { Hex } from '../../schema/primitives.ts'
import { type LagMax, lagText, readAt } from './chain-lag.ts'
import { ChannelReadings } from './channel-readings.ts'
import type { ChannelRefunds } from './channel-refunds.ts'
import type { ChannelRelay } from './channel-relay.ts'
import { type ClaimsDeps, claimChannels, dueClaims, isAtRisk } from './claims.ts'
import { GivenBack } from './given-back.ts'
import type { KeptChannel, KeptChannels } from './kept-channels.ts'
import { claimOf, type SellerChannel, unclaimedOf } from './seller-channel.ts'

/** Shorter than a third of the shortest delay of a withdrawal (900 s). */
const READ_EVERY_MS = 60_000
const CLAIM_EVERY_MS = 12 * 60 * 60_000
const SETTLE_EVERY_MS = 24 * 60 * 60_000
/** A transaction costs about this much, in USDC atomic units. A claim for less is a loss (hazard 4.19). */
const DUST = 1_000n
/** Moving less than this is not worth a transaction each day. What is claimed is safe where it is. */
const SETTLE_MIN = 100_000n
/** What is claimed and lies at the contract, as a multiple of the claim threshold, is moved at once. */
const SETTLE_AT_ONCE = 10n
/** How long a start waits for the first claims, and a stop for the last. */
const START_MS = 20_000
const STOP_MS = 15_000
const FAILED = { firstMs: 60_000, mostMs: 15 * 60_000 }

type KeeperDeps = {
  clock: Clock
  logger: Logger
  chain: Pick<Chain, 'request' | 'blockTimeMs'>
  reader: ChannelReader
  relay: Pick<ChannelRelay, 'send'>
  refunds: Pick<ChannelRefunds, 'refund'>
  kept: KeptChannels
  chainId: number
  receiver: Hex
  token: Hex
  authorizer: ClaimsDeps['authorizer']
  /** Whether this process claims: one of those that share the ledger does. */
  isKeeper(): Promise<boolean>
}

/** `claimThreshold`: a channel that owes more is claimed at once. In atomic units. */
type KeeperOptions = LagMax & { claimThreshold: bigint; readEveryMs?: number; stopMs?: number }

/** What the channels of this seller looked like at the last reading. */
export type ChannelsSight = {
  channels: readonly KeptChannel[]
  /** The time of the chain then, in Unix milliseconds. It decides when a withdrawal can end. */
  chainTimeMs: number
  /** How far that lies behind the clock of this node, in ms, if it is too far. Else 0. */
  lagMs: number
  /** Why the last claim or settlement failed, and how often in a row. */
  failing: { count: number; reason: string } | undefined
}

/**
 * Takes what buyers owe on channels to the chain: claims, settles, and gives back what lies idle.
 *
 * Every process reads the channels, because each believes only its own reading. One of them claims for all: it reads what
 * they have on disk, and writes nothing to the records of the others. They see the claim at their next reading. If the
 * one that claims does not, a process claims for its own channels when half of the delay of a withdrawal is over.
 */
export class ChannelKeeper implements Service {
  readonly name = 'channel keeper'
  readonly #options: KeeperOptions
  readonly #deps: KeeperDeps
  readonly #readings: ChannelReadings
  readonly #givenBack: GivenBack
  readonly #turns: Periodic
  readonly #stopping = new AbortController()
  #sight: ChannelsSight = { channels: [], chainTimeMs: 0, lagMs: 0, failing: undefined }
  #failures = 0
  #nextTryAt = Number.NEGATIVE_INFINITY
  #settledAt: number

  constructor(options: KeeperOptions, deps: KeeperDeps) {
    this.#options = options
    this.#deps = deps
    this.#readings = new ChannelReadings({ ...deps, lagMaxMs: options.lagMaxMs })
    this.#givenBack = new GivenBack(deps)
    this.#settledAt = monotonicOf(deps.clock)
    const everyMs = options.readEveryMs ?? READ_EVERY_MS
    this.#turns = periodic(
      { name: this.name, firstMs: everyMs, everyMs },
      {
        work: () => this.turn('watch', this.#stopping.signal),
        onError: (err) => deps.logger.warn({ err }, 'the payment channels could not be read'),
      },
    )
  }

  /** Claims before this node serves anybody: it may have been away while a payer took its escrow out. */
  async start(): Promise<void> {
    const first = this.turn('start', this.#stopping.signal).catch((err: unknown) => {
      this.#deps.logger.warn({ err }, 'the payment channels could not be read at the start')
    })
    await within(START_MS, first)
    await this.#turns.start()
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the node is stopping'))
    await this.#turns.stop()
    const { stopMs = STOP_MS } = this.#options
    const last = this.turn('stop', AbortSignal.timeout(stopMs)).catch((err: unknown) => {
      this.#deps.logger.warn({ err }, 'the payment channels could not be claimed at the stop: the next start does it')
    })
    await within(stopMs, last)
  }

  /** Reads and claims soon, because something has changed. */
  soon(): void {
    this.#turns.soon()
  }

  sight(): ChannelsSight {
    return this.#sight
  }

  /** Reads all channels once, and does what is due. @throws ChainError, StoreError @internal Exported for its test. */
  async turn(when: 'start' | 'watch' | 'stop', signal: AbortSignal): Promise<void> {
    const { isKeeper, logger } = this.#deps
    const reading = await this.#readings.read(signal)
    const { channels, chainTimeMs, lagMs } = reading ?? { channels: [], chainTimeMs: 0, lagMs: 0 }
    if (lagMs > 0 && this.#sight.lagMs === 0) logger.error({ reason: lagText(lagMs) }, 'no call on a channel is taken')
    this.#sight = { ...this.#sight, channels, chainTimeMs, lagMs }
    if (reading === undefined) return
    // What is owed is claimed all the same: a claim too many does no harm.
    const isMine = await isKeeper()
    const due = isMine ? this.#due(channels, when) : channels.filter((one) => isLeft(one, chainTimeMs))
    await this.#claim(due, signal)
    if (!isMine) return
    await this.#settle(when, signal)
    if (when === 'watch' && lagMs === 0) await this.#givenBack.turn(channels, signal)
  }

  /** The channels to claim now. A transaction that is sent anyway takes along what others owe. */
  #due(channels: readonly KeptChannel[], when: 'start' | 'watch' | 'stop'): KeptChannel[] {
    const { clock } = this.#deps
    const owing = channels.filter(({ channel }) => claimOf(channel) !== undefined)
    const isPaused = monotonicOf(clock) < this.#nextTryAt
    const since = new Map(owing.map(({ channel, owedSince }) => [channel.id, owedSince]))
    const everyMs = when === 'watch' ? CLAIM_EVERY_MS : 0
    // A clock that was set back says nothing of the age.
    const owedForMs = ({ id }: SellerChannel) => Math.max(0, clock.now() - (since.get(id) ?? clock.now()))
    const policy = { unclaimedMax: this.#options.claimThreshold, everyMs }
    const due = dueClaims(
      owing.map(({ channel }) => channel),
      owedForMs,
      policy,
    )
    const isUrgent = due.some(isAtRisk)
    if (isPaused && !isUrgent && when === 'watch') return []
    if (due.reduce((sum, channel) => sum + unclaimedOf(channel), 0n) < DUST) return []
    const isDue = new Set(due.map(({ id }) => id))
    return owing.filter(({ channel }) => isDue.has(channel.id) || unclaimedOf(channel) >= DUST)
  }

  async #claim(due: readonly KeptChannel[], signal: AbortSignal): Promise<void> {
    if (due.length === 0) return
    const { logger, reader, kept, relay, clock } = this.#deps
    const at = readAt(momentOf(clock), this.#sight.lagMs)
    const claims = await claimChannels(
      due.map(({ channel }) => channel),
      {
        ...this.#deps,
        seen: (channel) => kept.seen(channel.id, channel.onChain, at),
        submit(claim, each) {
          const wanted = new Map(claim.claims.map(({ totalClaimed }, index) => [claim.ids[index]!, totalClaimed]))
          const isDone = async (look: AbortSignal) => {
            const states = await reader.channels([...wanted.keys()], look)
            return [...wanted.values()].every((total, index) => states[index]!.totalClaimed >= total)
          }
          return relay.send({ type: 'claim', ...claim }, isDone, each)
        },
      },
      signal,
    )
    this.#sight = { ...this.#sight, channels: merged(this.#sight.channels, claims.channels) }
    const before = due.reduce((sum, { channel }) => sum + unclaimedOf(channel), 0n)
    const after = claims.channels.reduce((sum, channel) => sum + unclaimedOf(channel), 0n)
    if (after < before) logger.info({ count: due.length }, `claimed ${formatPrice(before - after)} USDC of channels`)
    for (const { channel, reason } of claims.failed) {
      logger.error({ channel_id: channel.id, reason }, 'a channel could not be claimed')
    }
    this.#ended(claims.failed[0]?.reason)
  }

  /** Moves what is claimed to the account of this seller. Anyone may do that, so the sums of the chain count. */
  async #settle(when: 'start' | 'watch' | 'stop', signal: AbortSignal): Promise<void> {
    const { reader, relay, receiver, token, clock, logger } = this.#deps
    const { totalClaimed, totalSettled } = await reader.receiver(receiver, token, signal)
    const unsettled = totalClaimed - totalSettled
    const isOld = when === 'stop' || monotonicOf(clock) - this.#settledAt >= SETTLE_EVERY_MS
    const isLarge = unsettled >= this.#options.claimThreshold * SETTLE_AT_ONCE
    if (unsettled < SETTLE_MIN || !(isOld || isLarge)) return
    if (when === 'watch' && monotonicOf(clock) < this.#nextTryAt) return
    const isDone = async (look: AbortSignal) =>
      (await reader.receiver(receiver, token, look)).totalSettled >= totalClaimed
    try {
      await relay.send({ type: 'settle', receiver, token }, isDone, signal)
      this.#settledAt = monotonicOf(clock)
      logger.info({}, `settled ${formatPrice(unsettled)} USDC of channels`)
      this.#ended(undefined)
    } catch (error) {
      signal.throwIfAborted()
      logger.warn({ err: error }, 'what is claimed of channels could not be settled yet: it is safe at the contract')
      this.#ended(reasonOf(error))
    }
  }

  #ended(reason: string | undefined): void {
    this.#failures = reason === undefined ? 0 : this.#failures + 1
    const waitMs = reason === undefined ? Number.NEGATIVE_INFINITY : doubledMs(this.#failures, FAILED)
    this.#nextTryAt = monotonicOf(this.#deps.clock) + waitMs
    const failing = reason === undefined ? undefined : { count: this.#failures, reason }
    this.#sight = { ...this.#sight, failing }
  }
}

/** Whether the process that claims for all has left a channel of this one to its payer. By the time of the chain. */
function isLeft({ isOwn, channel }: KeptChannel, chainTimeMs: number): boolean {
  const { withdrawal } = channel.onChain
  if (!isOwn || withdrawal === undefined || !isAtRisk(channel) || claimOf(channel) === undefined) return false
  return chainTimeMs >= (withdrawal.initiatedAt + channel.config.withdrawDelay / 2) * 1000
}

function merged(all: readonly KeptChannel[], now: readonly SellerChannel[]): KeptChannel[] {
  const fresh = new Map(now.map((channel) => [channel.id, channel]))
  return all.map((one) => ({ ...one, channel: fresh.get(one.channel.id) ?? one.channel }))
}
