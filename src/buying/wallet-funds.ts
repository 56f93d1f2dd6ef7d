import type { Chain } from '../chain/chain.ts'
import { type Clock, monotonicOf } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { MarketError } from '../listings/market-error.ts'
import type { Wallet } from '../payments/wallet.ts'
import { usdc } from '../schema/amount.ts'
import { networkKind, networkText } from '../schema/network-kind.ts'

/** How long a balance stays in use after it was read. Payments are subtracted from it meanwhile. */
const FRESH_MS = 15_000
/** A call waits no longer for the RPC. Without an answer, the call goes on and the seller notices a missing balance. */
const ANSWER_MS_MAX = 3_000
const FAUCET = 'https://faucet.circle.com'

/** Checks that the wallet holds the amount to sign. */
export interface WalletFunds {
  /** @throws MarketError INSUFFICIENT_FUNDS if the chain shows less than the amount */
  check(amount: bigint, signal: AbortSignal): Promise<void>
}

/**
 * Reads the wallet's balance before a signature. If the RPC does not answer, the check passes.
 *
 * A newly read balance ignores payments that are signed and not settled, because it may include some of them already.
 */
export function createWalletFunds(deps: {
  clock: Clock
  logger: Logger
  wallet: Pick<Wallet, 'address' | 'asset'>
  chain: Pick<Chain, 'usdcBalance'>
}): WalletFunds {
  const { clock, logger, chain } = deps
  const { address, asset } = deps.wallet
  /** `at` is a time of the monotonic clock. */
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
