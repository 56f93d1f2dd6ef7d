import { BoundedMap } from '../../lib/bounded-map.ts'
import { type Clock, monotonicOf } from '../../lib/clock.ts'
import type { Logger } from '../../lib/logger.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { ChannelRefunds } from './channel-refunds.ts'
import type { KeptChannel } from './kept-channels.ts'
import { openRefund } from './seller-channel.ts'

/** A seller gives back on its own what lies in a channel that nobody has used for this long. */
const IDLE_MS = 30 * 24 * 60 * 60_000
/** Less is not worth a transaction that no buyer asks for. In USDC atomic units. */
const IDLE_MIN = 100_000n
/** A refund that was signed this long ago is not under way any more. */
const LEFT_MS = 2 * 60_000
/** Pause before a channel is tried again. */
const AGAIN_MS = 10 * 60_000
/** Channels that are tried in one turn. */
const TRIED_MAX = 5
const REMEMBERED_MAX = 10_000

type GivenBackDeps = { clock: Clock; logger: Logger; refunds: Pick<ChannelRefunds, 'refund'> }

/**
 * Refunds that no buyer asks for now: of channels that lie idle, and those that were signed and did not reach the chain, because
 * the process ended or the chain was away. What a signed refund names pays no call any more, and a client over HTTP may never ask again.
 */
export class GivenBack {
  readonly #deps: GivenBackDeps
  /** When a channel was tried last, by the monotonic clock. */
  readonly #triedAt = new BoundedMap<Hex, number>(REMEMBERED_MAX)

  constructor(deps: GivenBackDeps) {
    this.#deps = deps
  }

  /** Of all channels, because after a restart this process has none yet. What another living process has is not given back. */
  async turn(channels: readonly KeptChannel[], signal: AbortSignal): Promise<void> {
    const { refunds, logger } = this.#deps
    const due = channels.filter((one) => this.#isDue(one)).slice(0, TRIED_MAX)
    for (const { channel } of due) {
      this.#triedAt.set(channel.id, monotonicOf(this.#deps.clock))
      const outcome = await refunds.refund(channel.id, undefined, signal)
      if (outcome.kind === 'refunded') logger.info({ channel_id: channel.id }, 'gave back what was free in a channel')
    }
  }

  #isDue({ channel, usedAt }: KeptChannel): boolean {
    const { clock } = this.#deps
    const triedAt = this.#triedAt.get(channel.id) ?? Number.NEGATIVE_INFINITY
    if (monotonicOf(clock) - triedAt < AGAIN_MS) return false
    const unusedMs = clock.now() - usedAt
    if (openRefund(channel) !== undefined) return unusedMs >= LEFT_MS
    return unusedMs >= IDLE_MS && channel.onChain.balance - channel.charged >= IDLE_MIN
  }
}
