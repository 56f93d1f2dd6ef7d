import { isDeepStrictEqual } from 'node:util'
import type { ChannelReader } from '../../chain/batch-settlement.ts'
import { monotonicOf } from '../../lib/clock.ts'
import { missingIn } from '../../payments/channels/moved.ts'
import { usdc } from '../../schema/amount.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { ChannelLine } from './channel-line.ts'
import { countedOf, lookForMissing, type MissingDeps } from './missing.ts'
import { bringBack, type UndoneDeps } from './undone.ts'

/** How often all channels are read. */
const REFRESH_MS = 60_000
/** How often the log is searched for money that stays missing. */
const SEARCH_MS = 15 * 60_000

type ReadingDeps = MissingDeps & UndoneDeps & { reader: Pick<ChannelReader, 'channels'> }

/** Reads the channels again from time to time: a seller gives back, and a withdrawal takes out. */
export class ChannelReadings {
  readonly #deps: ReadingDeps
  /** When the log was searched for the money of a channel, by the monotonic clock. */
  readonly #searchedAt = new Map<Hex, number>()
  #refreshedAt = Number.NEGATIVE_INFINITY

  constructor(deps: ReadingDeps) {
    this.#deps = deps
  }

  /** @throws ChainError, StoreError */
  async refresh(all: () => Iterable<ChannelLine>): Promise<void> {
    const { store, clock, reader } = this.#deps
    const now = monotonicOf(clock)
    if (now - this.#refreshedAt < REFRESH_MS) return
    this.#refreshedAt = now
    const lines = [...all()].filter(({ deposit }) => deposit === undefined)
    const states = await reader.channels(lines.map(({ id }) => id))
    for (const [index, line] of lines.entries()) {
      const onChain = states[index]!
      if (line.deposit !== undefined) continue
      if (!isDeepStrictEqual(onChain, line.channel.onChain)) {
        await store.seen(line.id, { onChain, moved: line.moved }, clock.now())
      }
      // Also what is not new: a call that covered a claim may have ended since, and have cost nothing.
      line.seen(onChain)
      if (!(await bringBack(line, this.#deps))) await this.#search(line, now)
    }
  }

  async #search(line: ChannelLine, now: number): Promise<void> {
    if (missingIn(countedOf(line)) === 0n) {
      this.#searchedAt.delete(line.id)
      return
    }
    if (now - (this.#searchedAt.get(line.id) ?? Number.NEGATIVE_INFINITY) < SEARCH_MS) return
    this.#searchedAt.set(line.id, now)
    const { missing } = await lookForMissing(line, this.#deps)
    if (missing === 0n) return
    const amount = usdc(missing)
    const text = `the RPC shows ${amount} less in a payment channel than was put in, and nothing by which it left: it counts as locked`
    this.#deps.logger.warn({ channel_id: line.id, peer_id: line.sellerId }, text)
  }
}
