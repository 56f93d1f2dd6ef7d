import type { ChannelConfig } from '../schema/channel.ts'
import type { Hex } from '../schema/primitives.ts'
import { type Argument, encodeCall, encodeValues, readWordLists, readWords } from './abi.ts'
import type { Chain } from './chain.ts'
import { unavailable } from './rpc.ts'

/* The contract of x402's `batch-settlement` scheme: payment channels. The tests compare each call with an ABI library. */

/** The contract and the collector of EIP-3009 deposits. They have the same addresses on every chain. */
export const batchSettlementAddress = '0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003'
export const erc3009CollectorAddress = '0x4020806089470a89826cB9fB1f4059150b550004'

const selectors = {
  deposit: '0x140f1e75',
  claim: '0x29237b0c',
  claimWithSignature: '0xe43ce1f2',
  settle: '0x9db32a8f',
  initiateWithdraw: '0xcf5cf3dc',
  finalizeWithdraw: '0xe88377b1',
  refund: '0xdce4bfae',
  refundWithSignature: '0xb77433e9',
  multicall: '0xac9650d8',
  channels: '0x7a7ebd7b',
  pendingWithdrawals: '0xb7f06ebe',
  refundNonce: '0xf0dc792e',
  receivers: '0x21ff6389',
} as const satisfies Record<string, Hex>

/** The payer's EIP-3009 authorization of a deposit. `salt` goes into its nonce beside the channel's id. */
export type DepositAuthorization = { validAfter: bigint; validBefore: bigint; salt: Hex; signature: Hex }

/** One row of a claim: a voucher, and the new total that the receiver claims by it. */
export type ChannelClaim = {
  config: ChannelConfig
  maxClaimableAmount: bigint
  /** The voucher's signature. That of a contract (EIP-1271) may have any length. */
  signature: Hex
  totalClaimed: bigint
}

/** What the chain has recorded of a channel. Amounts are in atomic units. */
export type ChannelState = {
  /** All deposits, less refunds and withdrawals. A claim does not lower it. */
  balance: bigint
  totalClaimed: bigint
  /** A withdrawal that the payer has started. `initiatedAt`: block time in Unix seconds. */
  withdrawal: { amount: bigint; initiatedAt: number } | undefined
  /** The nonce that the next signed refund must have. */
  refundNonce: bigint
}

/** What a receiver has claimed and been paid in one token, over all its channels. */
type ReceiverState = { totalClaimed: bigint; totalSettled: bigint }

const claimOf = ({ config, maxClaimableAmount, signature, totalClaimed }: ChannelClaim): Argument => ({
  tuple: [{ tuple: [configOf(config), maxClaimableAmount] }, { bytes: signature }, totalClaimed],
})
const listOf = (claims: readonly ChannelClaim[]): Argument => ({ list: claims.map(claimOf) })

/**
 * The data of calls that change channels. Anyone may send a deposit, a settlement, and calls that carry a signature.
 */
export const channelCalls = {
  deposit: (config: ChannelConfig, amount: bigint, authorization: DepositAuthorization): Hex =>
    encodeCall(selectors.deposit, [
      configOf(config),
      amount,
      { address: erc3009CollectorAddress },
      { bytes: collectorData(authorization) },
    ]),
  /** Only the receiver or its authorizer may send it. */
  claim: (claims: readonly ChannelClaim[]): Hex => encodeCall(selectors.claim, [listOf(claims)]),
  claimWithSignature: (claims: readonly ChannelClaim[], signature: Hex): Hex =>
    encodeCall(selectors.claimWithSignature, [listOf(claims), { bytes: signature }]),
  settle: (receiver: Hex, token: Hex): Hex => encodeCall(selectors.settle, [{ address: receiver }, { address: token }]),
  /** Only the payer or its authorizer may send it. */
  initiateWithdraw: (config: ChannelConfig, amount: bigint): Hex =>
    encodeCall(selectors.initiateWithdraw, [configOf(config), amount]),
  /** Only the payer or its authorizer may send it. */
  finalizeWithdraw: (config: ChannelConfig): Hex => encodeCall(selectors.finalizeWithdraw, [configOf(config)]),
  /** Only the receiver or its authorizer may send it. */
  refund: (config: ChannelConfig, amount: bigint): Hex => encodeCall(selectors.refund, [configOf(config), amount]),
  refundWithSignature: (config: ChannelConfig, { amount, nonce, signature }: SignedRefund): Hex =>
    encodeCall(selectors.refundWithSignature, [configOf(config), amount, nonce, { bytes: signature }]),
  /** Several of these calls in one transaction. If one fails, none has an effect. */
  multicall,
} as const

type SignedRefund = { amount: bigint; nonce: bigint; signature: Hex }

/** Reads the contract. Every method throws ChainError like the methods of Chain. */
export interface ChannelReader {
  /**
   * The states of these channels, in their order and all of the same block: the newest, or the one with this number. A
   * channel without deposits is empty.
   */
  channels(ids: readonly Hex[], signal?: AbortSignal, block?: bigint): Promise<ChannelState[]>
  receiver(receiver: Hex, token: Hex, signal?: AbortSignal): Promise<ReceiverState>
}

export function createChannelReader(chain: Pick<Chain, 'request'>): ChannelReader {
  const read = (data: Hex, signal?: AbortSignal, block?: bigint) => {
    const at = block === undefined ? 'latest' : `0x${block.toString(16)}`
    return chain.request('eth_call', [{ to: batchSettlementAddress, data }, at], signal)
  }
  const getters = [selectors.channels, selectors.pendingWithdrawals, selectors.refundNonce]

  return {
    async channels(ids, signal, block) {
      if (ids.length === 0) return []
      const calls = ids.flatMap((word) => getters.map((getter) => encodeCall(getter, [{ word }])))
      const answers = readWordLists(await read(multicall(calls), signal, block), calls.length)
      return ids.map((_, index) => stateOf(answers.slice(index * getters.length, (index + 1) * getters.length)))
    },
    async receiver(receiver, token, signal) {
      const call = encodeCall(selectors.receivers, [{ address: receiver }, { address: token }])
      const [totalClaimed, totalSettled] = readWords(await read(call, signal), 2)
      return { totalClaimed: totalClaimed!, totalSettled: totalSettled! }
    },
  }
}

/** The answers of the three getters for one channel. */
function stateOf(answers: readonly bigint[][]): ChannelState {
  const words = answers.flat()
  const [balance, totalClaimed, amount, initiatedAt, refundNonce] = words
  if (words.length !== 5 || initiatedAt! >> 40n !== 0n || totalClaimed! > balance!) {
    throw unavailable('the RPC answered something that is not the state of a channel')
  }
  return {
    balance: balance!,
    totalClaimed: totalClaimed!,
    withdrawal: initiatedAt === 0n ? undefined : { amount: amount!, initiatedAt: Number(initiatedAt) },
    refundNonce: refundNonce!,
  }
}

function configOf(config: ChannelConfig): Argument {
  const { payer, payerAuthorizer, receiver, receiverAuthorizer, token, withdrawDelay, salt } = config
  const accounts = [payer, payerAuthorizer, receiver, receiverAuthorizer, token]
  return {
    tuple: [...accounts.map((address) => ({ address: address as Hex })), BigInt(withdrawDelay), { word: salt as Hex }],
  }
}

/** The part of a deposit that the collector of EIP-3009 deposits reads. */
function collectorData({ validAfter, validBefore, salt, signature }: DepositAuthorization): Hex {
  return encodeValues([validAfter, validBefore, { word: salt }, { bytes: signature }])
}

function multicall(calls: readonly Hex[]): Hex {
  return encodeCall(selectors.multicall, [{ list: calls.map((bytes) => ({ bytes })) }])
}
