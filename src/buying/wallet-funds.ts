import type { Chain } from '../chain/chain.ts'
import { type Clock, monotonicOf } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { MarketError } from '../listings/market-error.ts'
import type { Wallet } from '../payments/wallet.ts'
import { networkKind, networkText } from '../schema/network-kind.ts'
import { usdc } from './budget.ts'

/** A balance that was read is counted down for this long before it is read again. */
const FRESH_MS = 15_000
/** A call does not wait longer for the RPC: without an answer the seller finds out. */
const ANSWER_MS_MAX = 3_000
const FAUCET = 'https://faucet.circle.com'

/** Whether the wallet holds what is about to be signed for. */
export interface WalletFunds {
  /** @throws MarketError INSUFFICIENT_FUNDS where the chain shows less than the amount */
  check(amount: bigint, signal: AbortSignal): Promise<void>
}

/**
 * Reads the wallet's balance before a signature. An RPC that does not answer stops nothing.
 *
 * Payments that are signed and not settled are not taken off a balance that was just read: some of them are in it.
 */
export function createWalletFunds(deps: {
  clock: Clock
  logger: Logger
  wallet: Pick<Wallet, 'address' | 'asset'>
  chain: Pick<Chain, 'usdcBalance'>
}): WalletFunds {
  const { clock, logger, chain } = deps
  const { address, asset } = deps.wallet
  /** `at`: by the monotonic clock. */
  let known = { left: 0n, at: Number.NEGATIVE_INFINITY }

  async function read(signal: AbortSignal): Promise<bigint | undefined> {
    try {
      return await chain.usdcBalance(address, AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS_MAX)]))
    } catch (err) {
      signal.throwIfAborted()
      logger.debug({ err }, 'the balance of the wallet could not be read before a payment')
      return undefined
    }
  }

  return {
    async check(amount, signal) {
      const isFresh = monotonicOf(clock) - known.at < FRESH_MS
      if (isFresh && known.left >= amount) {
        known.left -= amount
        return
      }
      const balance = await read(signal)
      if (balance === undefined) return
      if (balance >= amount) {
        known = { left: balance - amount, at: monotonicOf(clock) }
        return
      }
      const holds = `the wallet ${address} holds ${usdc(balance)} on ${networkText(asset.network)}`
      const missing = `this call costs ${usdc(amount)}: ${usdc(amount - balance)} are missing, and nothing was signed`
      const faucet = networkKind(asset.network) === 'test' ? `; ${FAUCET} gives test USDC` : ''
      throw new MarketError('INSUFFICIENT_FUNDS', `${holds}, and ${missing}. Send USDC to ${address}${faucet}`)
    },
  }
}
