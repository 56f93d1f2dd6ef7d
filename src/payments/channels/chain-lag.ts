import type { ChannelReader } from '../../chain/batch-settlement.ts'
import type { Chain } from '../../chain/chain.ts'
import { unavailable } from '../../chain/rpc.ts'
import type { Clock, Moment } from '../../lib/clock.ts'

/** `lagMaxMs`: the newest block is never older than this by the clock of this node, unless the RPC is stuck or the clock is wrong. */
export type LagMax = { lagMaxMs: number }

/** How far the newest block lies behind the clock, in ms. 0: as far as is in order. */
export function lagOf(chainTimeMs: number, { clock, lagMaxMs }: LagMax & { clock: Clock }): number {
  const lagMs = clock.now() - chainTimeMs
  return lagMs > lagMaxMs ? lagMs : 0
}

/** The moment of a reading that began at `at`: it is as old as the block that it read. */
export function readAt({ wall, monotonic }: Moment, lagMs: number): Moment {
  return { wall: wall - lagMs, monotonic: monotonic - lagMs }
}

/** What is wrong, for people. */
export function lagText(lagMs: number): string {
  const minutes = Math.floor(lagMs / 60_000)
  return `the newest block that the RPC shows is ${minutes} min old: it is stuck, or the clock of this node is wrong`
}

/**
 * Refuses to read an old block. An RPC that is stuck answers at once and hides each withdrawal that has begun since, so
 * what it shows must not count as new (hazard 4.3).
 */
export function currentReader<Reader extends Pick<ChannelReader, 'channels'>>(
  reader: Reader,
  { chain, ...limits }: LagMax & { clock: Clock; chain: Pick<Chain, 'blockTimeMs'> },
): Reader {
  if (limits.lagMaxMs === Number.POSITIVE_INFINITY) return reader
  return {
    ...reader,
    async channels(ids, signal, block) {
      // In this order: what is read after a block was new is no older than that block.
      const lagMs = lagOf(await chain.blockTimeMs(signal), limits)
      if (lagMs > 0) throw unavailable(lagText(lagMs))
      return reader.channels(ids, signal, block)
    },
  }
}
