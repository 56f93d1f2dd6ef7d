import type { Hex } from '../schema/primitives.ts'
import { parseLogs, parseQuantity } from './answers.ts'
import { type Rpc, RpcRefusal } from './rpc.ts'
import type { Log } from './usdc.ts'

/** Blocks in the first search. They include recent settlements, and every RPC we know allows this range. */
const WINDOW_FIRST = 500
const WINDOW_MAX = 10_000
const WINDOW_MIN = 5

/** The block range that this RPC allows, as learned so far. Kept between searches. */
export type LogWindow = { blocksMax: number }

export function createLogWindow(): LogWindow {
  return { blocksMax: WINDOW_MAX }
}

type LogSearch = {
  address: Hex
  /** As in eth_getLogs: a list allows any of its topics. */
  topics: readonly (Hex | readonly Hex[])[]
  blocksMax: number
  requestsMax: number
  /** Gets the logs of one range. True ends the search. */
  see(logs: readonly Log[]): boolean
}

/**
 * Searches the logs of a contract from the newest block backward. Public RPCs limit the block range of eth_getLogs, each
 * to another number and with another error. So the range grows while it is allowed and is halved after a refusal.
 * @returns false if the search has ended before it saw `blocksMax` blocks, and `see` did not end it
 * @throws ChainError `CHAIN_UNAVAILABLE`
 */
export async function searchLogs(
  { address, topics, blocksMax, requestsMax, see }: LogSearch,
  { rpc, window }: { rpc: Rpc; window: LogWindow },
  signal?: AbortSignal,
): Promise<boolean> {
  const latest = parseQuantity(await rpc.call('eth_blockNumber', [], signal))
  const oldest = Math.max(0, latest - blocksMax)
  let size = Math.min(WINDOW_FIRST, window.blocksMax)
  let to = latest
  for (let requests = 0; to >= oldest; requests++) {
    if (requests === requestsMax) return false
    const first = Math.max(oldest, to - size + 1)
    const filter = {
      ...{ address, topics, fromBlock: quantity(first) },
      // A load-balanced RPC may answer from a node that is a block behind. The tag works there, the number does not.
      toBlock: to === latest ? 'latest' : quantity(to),
    }
    try {
      if (see(parseLogs(await rpc.call('eth_getLogs', [filter], signal)))) return true
      to = first - 1
      size = Math.min(size * 2, window.blocksMax)
    } catch (error) {
      if (!(error instanceof RpcRefusal)) throw error
      if (size <= WINDOW_MIN) return false
      size = Math.max(WINDOW_MIN, Math.floor(size / 2))
      window.blocksMax = size
    }
  }
  return true
}

function quantity(block: number): string {
  return `0x${block.toString(16)}`
}
