import type { Hex } from '../schema/primitives.ts'
import { parseLogs, parseQuantity } from './answers.ts'
import { type Rpc, RpcRefusal } from './rpc.ts'
import { authorizationTopics, endsAuthorization, type Log } from './usdc.ts'

/** First look: what settled a moment ago is in it, and every RPC we know of allows it. */
const WINDOW_FIRST = 500
const WINDOW_MAX = 10_000
const WINDOW_MIN = 5
/** More than a day of Base's 2 s blocks: longer than any authorization we accept is valid. */
const BLOCKS_MAX = 50_000
const REQUESTS_MAX = 64

/** How wide a block range this RPC has shown to allow; kept between searches. */
export type LogWindow = { blocksMax: number }

export function createLogWindow(): LogWindow {
  return { blocksMax: WINDOW_MAX }
}

/**
 * The event by which an authorization was used or canceled, looked for from the newest block backwards.
 *
 * Public RPCs limit the block range of eth_getLogs, each to another number and with another error: ranges grow while they are
 * allowed and are halved when one is refused. `undefined` when nothing is found within `BLOCKS_MAX` blocks or `REQUESTS_MAX` requests.
 *
 * @throws ChainError `CHAIN_UNAVAILABLE` when the RPC fails.
 */
export async function findAuthorizationLog(
  rpc: Rpc,
  authorization: { asset: Hex; from: Hex; nonce: Hex },
  window: LogWindow,
  signal?: AbortSignal,
): Promise<Log | undefined> {
  const { asset, from, nonce } = authorization
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
      // A load-balanced RPC may answer from a node that is a block behind: only a tag is never "unknown block" to it.
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
