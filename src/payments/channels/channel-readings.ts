import type { ChannelReader } from '../../chain/batch-settlement.ts'
import type { Chain } from '../../chain/chain.ts'
import { type Clock, momentOf } from '../../lib/clock.ts'
import type { Logger } from '../../lib/logger.ts'
import { formatPrice } from '../../schema/amount.ts'
import type { Hex } from '../../schema/primitives.ts'
import { type LagMax, lagOf, readAt } from './chain-lag.ts'
import { isClaimedNow } from './claims.ts'
import type { KeptChannel, KeptChannels } from './kept-channels.ts'
import { seenOnChain, unclaimedOf } from './seller-channel.ts'

/** Channels that one request to the RPC reads. */
const BATCH_MAX = 50
/** A channel without money is read for this long after its last call. */
const EMPTY_READ_MS = 60 * 60_000

type ReadingsDeps = LagMax & {
  clock: Clock
  logger: Logger
  chain: Pick<Chain, 'blockTimeMs'>
  reader: Pick<ChannelReader, 'channels'>
  kept: Pick<KeptChannels, 'list' | 'seen'>
}

/** `lagMs`: how far the chain that was read lies behind the clock, if that is too far. */
type Reading = { channels: KeptChannel[]; chainTimeMs: number; lagMs: number }

/** The part of a channel's charges that its escrow does not cover. A later deposit may cover it. */
export function lostOf({ channel }: KeptChannel): bigint {
  const { charged, onChain } = channel
  return charged > onChain.balance ? charged - onChain.balance : 0n
}

/** Reads the channels of a seller on the chain, and says in the log what has happened to their escrow. */
export class ChannelReadings {
  readonly #deps: ReadingsDeps
  /** What was said of a channel, so that it is said once. */
  #said = new Map<Hex, { withdrawalAt: number | undefined; lost: bigint }>()

  constructor(deps: ReadingsDeps) {
    this.#deps = deps
  }

  /** All channels, as the chain has them now. Undefined: there are none. @throws ChainError, StoreError */
  async read(signal: AbortSignal): Promise<Reading | undefined> {
    const { clock, kept, chain } = this.#deps
    const all = await kept.list()
    if (all.length === 0) return undefined
    const chainTimeMs = await chain.blockTimeMs(signal)
    const lagMs = lagOf(chainTimeMs, this.#deps)
    const now: KeptChannel[] = all.filter((one) => !this.#isRead(one))
    const read = all.filter((one) => this.#isRead(one))
    for (let from = 0; from < read.length; from += BATCH_MAX) {
      const batch = read.slice(from, from + BATCH_MAX)
      const at = readAt(momentOf(clock), lagMs)
      const states = await this.#deps.reader.channels(
        batch.map(({ channel }) => channel.id),
        signal,
      )
      for (const [index, one] of batch.entries()) {
        await kept.seen(one.channel.id, states[index]!, at)
        now.push({ ...one, channel: seenOnChain(one.channel, states[index]!) })
      }
    }
    this.#tell(now)
    return { channels: now, chainTimeMs, lagMs }
  }

  #isRead({ channel, usedAt }: KeptChannel): boolean {
    const { balance, totalClaimed } = channel.onChain
    return balance > totalClaimed || unclaimedOf(channel) > 0n || this.#deps.clock.now() - usedAt < EMPTY_READ_MS
  }

  #tell(channels: readonly KeptChannel[]): void {
    const { logger } = this.#deps
    const before = this.#said
    this.#said = new Map()
    for (const one of channels) {
      const { id, config, onChain } = one.channel
      const [withdrawalAt, lost] = [onChain.withdrawal?.initiatedAt, lostOf(one)]
      if (withdrawalAt === undefined && lost === 0n) continue
      const said = before.get(id)
      this.#said.set(id, { withdrawalAt, lost })
      const fields = { channel_id: id, reason: `payer ${config.payer}` }
      if (withdrawalAt !== undefined && said?.withdrawalAt !== withdrawalAt) {
        const shown = `${formatPrice(onChain.withdrawal!.amount)} USDC`
        const owed = isClaimedNow(one.channel) ? 'what it owes is claimed now' : 'what it owes is covered by the rest'
        logger.warn(fields, `the payer of a channel takes ${shown} out: ${owed}`)
      }
      if (lost > (said?.lost ?? 0n)) {
        logger.error(
          fields,
          `a withdrawal has taken escrow of a channel: ${formatPrice(lost)} USDC of charges are lost`,
        )
      }
    }
  }
}
