import type { Logger } from '../lib/logger.ts'
import type { SignedAuthorization } from '../schema/payment.ts'
import type { Hex, Network } from '../schema/primitives.ts'
import { eventTopics } from './abi.ts'
import { isMinedAfter, parseBlock, parseQuantity, parseReceipt } from './answers.ts'
import { findAuthorizationLog } from './authorization-log.ts'
import { createLogWindow } from './log-search.ts'
import { ChainError, createRpc, RpcRefusal, unavailable } from './rpc.ts'
import {
  encodeAuthorizationState,
  encodeBalanceOf,
  encodeTransferWithAuthorization,
  findTransfer,
  hasTransfer,
  readWord,
  type Transfer,
} from './usdc.ts'

export { ChainError } from './rpc.ts'
export type { Transfer } from './usdc.ts'

/**
 * What the chain says about an authorization (D34). `used` does not mean that the seller was paid: compare `transfer`
 * with the payment, because a payer can spend the nonce on another transfer. Without a `txHash` the nonce is used or
 * canceled, and the RPC no longer shows by which transaction.
 */
export type AuthorizationUse =
  | { state: 'unused' }
  | { state: 'used'; txHash: Hex; transfer: Transfer }
  | { state: 'used'; txHash: undefined }
  | { state: 'canceled' }

/**
 * USDC's answer to a simulated transfer. It covers balance, nonce, signature, contract payers, blacklist and pause.
 * `untimely`: the newest block is older than the authorization's window, which USDC checks first.
 */
export type Simulation = { kind: 'accepted' } | { kind: 'refused'; reason: string } | { kind: 'untimely' }

/**
 * The node's view of its blockchain, through an RPC that may be down, slow, wrong or lying. Every method throws
 * ChainError: `CHAIN_UNAVAILABLE` (no answer in time, or an invalid one) or `CHAIN_WRONG` (the RPC serves another
 * chain). No message holds the RPC's URL or key. After `signal` is aborted every method throws its reason.
 */
export interface Chain {
  readonly network: Network
  /** USDC in atomic units. */
  usdcBalance(address: Hex, signal?: AbortSignal): Promise<bigint>
  authorizationUse(asset: Hex, from: Hex, authorizationNonce: Hex, signal?: AbortSignal): Promise<AuthorizationUse>
  /**
   * Like `authorizationUse`, at the newest block, whose time in Unix milliseconds is returned too. Both come from the
   * same block, also if the RPC has several nodes: one that lacks the block refuses.
   */
  authorizationAt(
    asset: Hex,
    from: Hex,
    authorizationNonce: Hex,
    signal?: AbortSignal,
  ): Promise<{ use: AuthorizationUse; timeMs: number }>
  /** The transfer that a transaction made by this authorization. `false`: none (T13). `undefined`: not mined yet. */
  transferOf(
    txHash: Hex,
    from: Hex,
    authorizationNonce: Hex,
    signal?: AbortSignal,
  ): Promise<Transfer | false | undefined>
  /** True if a transaction, mined after `after`, moved exactly this much USDC from one account to another. */
  hasMoved(
    txHash: Hex,
    wanted: { from: Hex; to: Hex; value: bigint; after: Hex },
    signal?: AbortSignal,
  ): Promise<boolean>
  /** Simulates the transfer at the newest block, with a call that changes nothing. */
  simulateTransfer(asset: Hex, signed: SignedAuthorization, signal?: AbortSignal): Promise<Simulation>
  /** Why no answer of the RPC is believed: it served another chain when it was asked last. It is asked until it is right once. */
  wrong(): string | undefined
  /** The RPC's chain id, right or wrong. */
  chainId(signal?: AbortSignal): Promise<number>
  /** Sends any call, after checking that the RPC serves the right chain. The result is untrusted. */
  request(method: string, params: readonly unknown[], signal?: AbortSignal): Promise<unknown>
  /** The time of the newest block in Unix milliseconds. */
  blockTimeMs(signal?: AbortSignal): Promise<number>
}

export type ChainOptions = {
  network: Network
  /** USDC's address on `network`. */
  asset: Hex
  rpcUrl: string
  /** Limit of one RPC call. A question that needs several calls may take three times as long. */
  timeoutMs: number
}
export type ChainDeps = { logger: Logger; fetch?: typeof fetch }

type Authorization = { asset: Hex; from: Hex; nonce: Hex }

/** USDC's wording. An expired authorization never matches: by the time of the chain it stays expired. */
const UNTIMELY = /not yet valid/i

/** Creates a chain client. The first call connects. */
export function createChain(options: ChainOptions, deps: ChainDeps): Chain {
  const { network, asset } = options
  const expectedChainId = Number(network.slice('eip155:'.length))
  const rpc = createRpc(
    { url: options.rpcUrl, timeoutMs: options.timeoutMs },
    { fetch: (input, init) => (deps.fetch ?? fetch)(input, init) },
  )
  const window = createLogWindow()
  let chainIs: 'unknown' | 'right' | { wrong: string } = 'unknown'

  async function chainId(signal?: AbortSignal): Promise<number> {
    return parseQuantity(await rpc.call('eth_chainId', [], signal))
  }

  /** Checks the chain id before the first question, until it is right once. */
  async function checkChain(signal: AbortSignal): Promise<void> {
    if (chainIs === 'right') return
    const actual = await chainId(signal)
    if (actual !== expectedChainId) {
      const message = `the RPC is of chain ${actual}, this node's network is ${network}: check ETHEREUM_RPC_URL (--rpc-url) and NODE_NETWORK (--network)`
      if (chainIs === 'unknown') deps.logger.warn({ network }, message)
      chainIs = { wrong: message }
      throw new ChainError('CHAIN_WRONG', message)
    }
    chainIs = 'right'
  }

  /** Limits the time of a question that takes several calls. */
  async function ask<T>(signal: AbortSignal | undefined, question: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const limit = AbortSignal.timeout(options.timeoutMs * 3)
    try {
      const both = signal === undefined ? limit : AbortSignal.any([signal, limit])
      await checkChain(both)
      return await question(both)
    } catch (error) {
      signal?.throwIfAborted()
      if (error instanceof ChainError || !limit.aborted) throw error
      throw unavailable(`the RPC is too slow: no full answer within ${options.timeoutMs * 3} ms`)
    }
  }

  function callUsdc(token: Hex, data: Hex, signal: AbortSignal, block = 'latest'): Promise<bigint> {
    return rpc.call('eth_call', [{ to: token, data }, block], signal).then(readWord)
  }

  async function newestBlock(signal: AbortSignal) {
    const { number, timestamp } = parseBlock(await rpc.call('eth_getBlockByNumber', ['latest', false], signal))
    return { tag: `0x${number.toString(16)}`, timeMs: timestamp * 1000 }
  }

  async function useAt(block: string, authorization: Authorization, signal: AbortSignal): Promise<AuthorizationUse> {
    const { asset: token, from, nonce } = authorization
    const state = await callUsdc(token, encodeAuthorizationState(from, nonce), signal, block)
    if (state === 0n) return { state: 'unused' }
    const log = await findAuthorizationLog(authorization, { rpc, window }, signal)
    if (log === undefined) return { state: 'used', txHash: undefined }
    if (log.topics[0] === eventTopics.authorizationCanceled) return { state: 'canceled' }
    const receipt = await receiptOf(log.transactionHash, signal)
    const transfer = findTransfer(receipt?.logs ?? [], token, from, nonce)
    // The node asked this time does not have the receipt yet: the next question will find it.
    if (transfer === false) throw unavailable('the RPC shows the event of a settlement but not its transfer yet')
    return { state: 'used', txHash: log.transactionHash, transfer }
  }

  async function receiptOf(txHash: Hex, signal: AbortSignal) {
    const receipt = parseReceipt(await rpc.call('eth_getTransactionReceipt', [txHash], signal))
    if (receipt !== undefined && receipt.transactionHash !== txHash.toLowerCase()) {
      throw unavailable('the RPC answered with the receipt of another transaction')
    }
    return receipt
  }

  return {
    network,
    chainId,
    wrong: () => (typeof chainIs === 'object' ? chainIs.wrong : undefined),

    usdcBalance: (address, signal) => ask(signal, (bounded) => callUsdc(asset, encodeBalanceOf(address), bounded)),

    authorizationUse: (token, from, nonce, signal) =>
      ask(signal, (bounded) => useAt('latest', { asset: token, from, nonce }, bounded)),

    authorizationAt: (token, from, nonce, signal) =>
      ask(signal, async (bounded) => {
        const { tag, timeMs } = await newestBlock(bounded)
        return { use: await useAt(tag, { asset: token, from, nonce }, bounded), timeMs }
      }),

    transferOf: (txHash, from, nonce, signal) =>
      ask(signal, async (bounded) => {
        const receipt = await receiptOf(txHash, bounded)
        if (receipt === undefined) return undefined
        return receipt.succeeded && findTransfer(receipt.logs, asset, from, nonce)
      }),

    hasMoved: (txHash, wanted, signal) =>
      ask(signal, async (bounded) => {
        const [receipt, earlier] = await Promise.all([receiptOf(txHash, bounded), receiptOf(wanted.after, bounded)])
        if (receipt?.succeeded !== true || earlier === undefined || !isMinedAfter(receipt, earlier)) return false
        return hasTransfer(receipt.logs, asset, wanted)
      }),

    simulateTransfer: (token, signed, signal) =>
      ask(signal, async (bounded): Promise<Simulation> => {
        const call = { from: signed.authorization.to, to: token, data: encodeTransferWithAuthorization(signed) }
        try {
          await rpc.call('eth_call', [call, 'latest'], bounded)
          return { kind: 'accepted' }
        } catch (error) {
          if (!(error instanceof RpcRefusal && error.isRevert)) throw error
          if (UNTIMELY.test(error.message)) return { kind: 'untimely' }
          return { kind: 'refused', reason: error.message.replace(/^.*\): /, '') }
        }
      }),

    request: (method, params, signal) => ask(signal, (bounded) => rpc.call(method, params, bounded)),

    blockTimeMs: (signal) => ask(signal, async (bounded) => (await newestBlock(bounded)).timeMs),
  }
}
