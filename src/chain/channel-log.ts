import type { ChannelConfig } from '../schema/channel.ts'
import type { Hex } from '../schema/primitives.ts'
import { addressWord, eventTopics, readAddress, readWords } from './abi.ts'
import { parseReceipt } from './answers.ts'
import { batchSettlementAddress, erc3009CollectorAddress } from './batch-settlement.ts'
import type { Chain } from './chain.ts'
import { createLogWindow, searchLogs } from './log-search.ts'
import type { Log } from './usdc.ts'

/** Base makes a block every 2 s. */
export const BLOCKS_A_DAY = 43_200
/** Requests for logs in one search: a year, at an RPC that allows 1,000 blocks each. */
const REQUESTS_MAX = 16_000
/** Deposits that are looked at in one search. */
const DEPOSITS_MAX = 2_000

/** Channels of one payer, by the log of the chain. */
type LoggedChannels = {
  /** The terms of each channel, by its id. */
  terms: ReadonlyMap<Hex, ChannelConfig>
  /** Channels with a deposit in these days, and the first one before them: only the first shows the terms. */
  older: readonly Hex[]
  /** False if the RPC did not show all of these days. */
  isWhole: boolean
}

/**
 * Finds the channels into which an account has deposited in the last days. A deposit moves USDC from the payer to the
 * contract or to its collector, and that event can be searched by the payer. The same transaction shows the channel.
 *
 * @param id the id that follows from the terms. What the RPC shows of another id is left out
 * @throws ChainError, or the reason of `signal`
 */
export async function findChannels(
  { payer, token, days, id }: { payer: Hex; token: Hex; days: number; id(config: ChannelConfig): Hex },
  { request }: Pick<Chain, 'request'>,
  signal: AbortSignal,
): Promise<LoggedChannels> {
  const deposits = new Set<Hex>()
  const places = [topicOf(batchSettlementAddress), topicOf(erc3009CollectorAddress)]
  const search = {
    ...{ address: token, topics: [eventTopics.transfer, topicOf(payer), places] },
    ...{ blocksMax: days * BLOCKS_A_DAY, requestsMax: REQUESTS_MAX },
    see(logs: readonly Log[]) {
      for (const log of logs) deposits.add(log.transactionHash)
      return deposits.size >= DEPOSITS_MAX
    },
  }
  const isSeen = await searchLogs(search, { rpc: { call: request }, window: createLogWindow() }, signal)
  const terms = new Map<Hex, ChannelConfig>()
  const used = new Set<Hex>()
  let isWhole = isSeen && deposits.size < DEPOSITS_MAX
  for (const hash of deposits) {
    const receipt = parseReceipt(await request('eth_getTransactionReceipt', [hash], signal))
    // An RPC with several nodes may ask one that lags behind.
    if (receipt === undefined) isWhole = false
    for (const log of receipt?.succeeded === true ? receipt.logs : []) {
      if (log.address !== batchSettlementAddress.toLowerCase()) continue
      const [event, channel] = log.topics
      if (event === eventTopics.deposited && channel !== undefined) used.add(channel)
      const config = event === eventTopics.channelCreated ? configOf(log.data) : undefined
      const isOurs = config?.payer === payer.toLowerCase() && config.token === token.toLowerCase()
      if (isOurs && channel === id(config).toLowerCase()) terms.set(channel as Hex, config)
    }
  }
  const older = [...used].filter((channel) => !terms.has(channel))
  return { terms, older, isWhole }
}

function topicOf(address: Hex): Hex {
  return `0x${addressWord(address)}`
}

/** The terms in the event of a new channel: a struct of seven words. */
function configOf(data: Hex): ChannelConfig {
  const words = readWords(data, 7)
  const [payer, payerAuthorizer, receiver, receiverAuthorizer, token] = words.slice(0, 5).map(readAddress)
  return {
    ...{
      payer: payer!,
      payerAuthorizer: payerAuthorizer!,
      receiver: receiver!,
      receiverAuthorizer: receiverAuthorizer!,
    },
    ...{ token: token!, withdrawDelay: Number(words[5]), salt: `0x${words[6]!.toString(16).padStart(64, '0')}` },
  }
}
