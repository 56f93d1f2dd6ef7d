import type { Hex } from '../schema/primitives.ts'
import { eventTopics, readWords } from './abi.ts'
import { batchSettlementAddress } from './batch-settlement.ts'
import type { Chain } from './chain.ts'
import { BLOCKS_A_DAY } from './channel-log.ts'
import { createLogWindow, searchLogs } from './log-search.ts'
import type { Log } from './usdc.ts'

/** Requests for logs in one search: a year of channels, at an RPC that allows 10,000 blocks each. */
const REQUESTS_MAX = 1_600

/** `amount`: atomic units. `isWhole`: false if the RPC did not show the log of all of these days. */
export type TakenOut = { amount: bigint; isWhole: boolean }

/**
 * What refunds and withdrawals have taken out of a channel in the last days, by the log of the contract. The search goes
 * back from the newest block, and ends when they make `wanted`.
 *
 * @throws ChainError, or the reason of `signal`
 */
export async function findTakenOut(
  { id, wanted, days }: { id: Hex; wanted: bigint; days: number },
  { request }: Pick<Chain, 'request'>,
  signal?: AbortSignal,
): Promise<TakenOut> {
  let amount = 0n
  /** An RPC may answer with a log again, in another range. */
  const seen = new Set<string>()
  const search = {
    address: batchSettlementAddress as Hex,
    topics: [[eventTopics.refunded, eventTopics.withdrawFinalized], id],
    ...{ blocksMax: days * BLOCKS_A_DAY, requestsMax: REQUESTS_MAX },
    see(logs: readonly Log[]) {
      for (const log of logs) {
        const place = `${log.transactionHash} ${log.logIndex}`
        if (!isOf(log, id) || seen.has(place)) continue
        seen.add(place)
        amount += readWords(log.data, 1)[0]!
      }
      return amount >= wanted
    },
  }
  const isWhole = await searchLogs(search, { rpc: { call: request }, window: createLogWindow() }, signal)
  return { amount, isWhole }
}

/** An RPC may answer with logs that were not asked for. */
function isOf({ address, topics: [event, channel] }: Log, id: Hex): boolean {
  const leaves = event === eventTopics.refunded || event === eventTopics.withdrawFinalized
  return leaves && channel === id.toLowerCase() && address === batchSettlementAddress.toLowerCase()
}
