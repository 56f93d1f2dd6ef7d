import type { Hex } from '../schema/primitives.ts'
import { type LogWindow, searchLogs } from './log-search.ts'
import type { Rpc } from './rpc.ts'
import { authorizationTopics, endsAuthorization, type Log } from './usdc.ts'

/** Blocks searched: more than a day of Base's 2 s blocks, and longer than any accepted authorization is valid. */
const BLOCKS_MAX = 50_000
const REQUESTS_MAX = 64

/**
 * Finds the event that used or canceled an authorization, from the newest block backward. `undefined`: nothing was found
 * within `BLOCKS_MAX` blocks or `REQUESTS_MAX` requests.
 * @throws ChainError `CHAIN_UNAVAILABLE`
 */
export async function findAuthorizationLog(
  { asset, from, nonce }: { asset: Hex; from: Hex; nonce: Hex },
  deps: { rpc: Rpc; window: LogWindow },
  signal?: AbortSignal,
): Promise<Log | undefined> {
  let found: Log | undefined
  const see = (logs: readonly Log[]) => {
    found = logs.find((log) => endsAuthorization(log, asset, from, nonce))
    return found !== undefined
  }
  const topics = authorizationTopics(from, nonce)
  await searchLogs({ address: asset, topics, blocksMax: BLOCKS_MAX, requestsMax: REQUESTS_MAX, see }, deps, signal)
  return found
}
