import type { Hex } from '../schema/primitives.ts'
import { parseLogs, parseQuantity } from './answers.ts'
import { type Rpc, RpcRefusal } from './rpc.ts'
import { authorizationTopics, endsAuthorization, type Log } from './usdc.ts'

/** Blocks in the first search. They include recent settlements, and every RPC we know allows this range. */
const WINDOW_FIRST = 500
const WINDOW_MAX = 10_000
const WINDOW_MIN = 5
/** Blocks searched: more than a day of Base's 2 s blocks, and longer than any accepted authorization is valid. */
const BLOCKS_MAX = 50_000
const REQUESTS_MAX = 64

/** The block range that this RPC allows, as learned so far. Kept between searches. */
type LogWindow = { blocksMax: number }

export function createLogWindow(): LogWindow {
  return { blocksMax: WINDOW_MAX }
}

/**
 * Finds the event that used or canceled an authorization, from the newest block backward. Public RPCs limit the block
 * range of eth_getLogs, each to another number and with another error. So the range grows while it is allowed and is
 * halved after a refusal. `undefined`: nothing was found within `BLOCKS_MAX` blocks or `REQUESTS_MAX` requests.
 * @throws ChainError `CHAIN_UNAVAILABLE`
 */
export async function findAuthorizationLog(
  { asset, from, nonce }: { asset: Hex; from: Hex; nonce: Hex },
  { rpc, window }: { rpc: Rpc; window: LogWindow },
  signal?: AbortSignal,
): Promise<Log | undefined> {
  const latest = parseQuantity(await rpc.call('eth_blockNumber', [], signal))
  const oldest = Math.max(0, latest - BLOCKS_MAX)
  let size = Math.min(WINDOW_FIRST, window.blocksMax)
  let to = latest
  for (let requests = 0; to >= oldest && requests < REQUESTS_MAX; requests++) {
    const first = Math.max(oldest, to - size + 1)
    const filter = {
      address: asset,
      topics: authorizationTopics(from, nonce),
      fromBlock: quantity(first),
      // A load-balanced RPC may answer from a node that is a block behind. The tag works there, the number does not.
      toBlock: to === latest ? 'latest' : quantity(to),
    }
    try {
      const logs = parseLogs(await rpc.call('eth_getLogs', [filter], signal))
      const found = logs.find((log) => endsAuthorization(log, asset, from, nonce))
      if (found !== undefined) return found
      to = first - 1
      size = Math.min(size * 2, window.blocksMax)
    } catch (error) {
      if (!(error instanceof RpcRefusal)) throw error
      if (size <= WINDOW_MIN) return undefined
      size = Math.max(WINDOW_MIN, Math.floor(size / 2))
      window.blocksMax = size
    }
  }
  return undefined
}

function quantity(block: number): string {
  return `0x${block.toString(16)}`
}
