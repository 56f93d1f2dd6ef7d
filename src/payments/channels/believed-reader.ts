import { parseQuantity } from '../../chain/answers.ts'
import type { ChannelReader } from '../../chain/batch-settlement.ts'
import type { Chain } from '../../chain/chain.ts'
import { largest, smallest } from '../../lib/bigints.ts'

/**
 * Reads channels as a seller believes them: a deposit counts when `depth` blocks lie above it, and a withdrawal counts at
 * once.
 */
export function believedReader(
  reader: ChannelReader,
  { chain, depth }: { chain: Pick<Chain, 'request'>; depth: number },
): ChannelReader {
  if (depth === 0) return reader
  return {
    ...reader,
    async channels(ids, signal, block) {
      if (block !== undefined || ids.length === 0) return reader.channels(ids, signal, block)
      const newest = parseQuantity(await chain.request('eth_blockNumber', [], signal))
      const [now, before] = await Promise.all([
        reader.channels(ids, signal),
        reader.channels(ids, signal, BigInt(Math.max(newest - depth, 0))),
      ])
      return now.map((state, index) => {
        // What is claimed is covered, even by a deposit that is new.
        const balance = smallest(state.balance, largest(before[index]!.balance, state.totalClaimed))
        return { ...state, balance }
      })
    },
  }
}
