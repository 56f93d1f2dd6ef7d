import type { ChannelReader, ChannelState } from '../../chain/batch-settlement.ts'
import { type Clock, momentOf, sinceMs } from '../../lib/clock.ts'
import type { Logger } from '../../lib/logger.ts'
import type { Hex } from '../../schema/primitives.ts'
import { ChannelLooks } from './channel-looks.ts'
import type { OpenChannel } from './open-channel.ts'

/** A reading of the chain counts for a third of the withdrawal delay (hazard 4.3), and at most this long. */
const FRESH_MS_MAX = 5 * 60_000
/** A channel without enough deposits is read again after this time. */
const AGAIN_MS = 2_000

type FreshReadingsDeps = { clock: Clock; logger: Logger; reader: Pick<ChannelReader, 'channels'> }

/** What the chain shows of the channels that calls use: read again before it is too old. */
export class FreshReadings {
  readonly #deps: FreshReadingsDeps
  readonly #looks: ChannelLooks

  constructor(deps: FreshReadingsDeps) {
    this.#deps = deps
    this.#looks = new ChannelLooks(deps.reader)
  }

  /** @throws ChainError, ChannelsBusy, or the reason of `signal` */
  look(id: Hex, signal: AbortSignal): Promise<ChannelState> {
    return this.#looks.look(id, signal)
  }

  /** Reads the chain before what is known of it is too old. */
  async refresh(channel: OpenChannel, signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#deps
    const freshMs = Math.min((channel.channel.config.withdrawDelay * 1000) / 3, FRESH_MS_MAX)
    const { seenAt } = channel
    const ageMs = seenAt === undefined ? Number.POSITIVE_INFINITY : sinceMs(seenAt, clock)
    if (ageMs < freshMs / 2) return
    const looked = this.#see(channel, signal)
    if (ageMs >= freshMs) await looked
    else looked.catch((err: unknown) => logger.debug({ err }, 'could not read a channel ahead of time'))
  }

  /** Reads the chain again if it may show a new deposit. */
  async isFilledUp(channel: OpenChannel, signal: AbortSignal): Promise<boolean> {
    const { seenAt } = channel
    if (seenAt !== undefined && sinceMs(seenAt, this.#deps.clock) < AGAIN_MS) return false
    const before = channel.channel.onChain.balance
    return (await this.#see(channel, signal)).balance > before
  }

  async #see(channel: OpenChannel, signal: AbortSignal): Promise<ChannelState> {
    const at = momentOf(this.#deps.clock)
    const state = await this.look(channel.id, signal)
    channel.seen(state, at)
    return state
  }
}
