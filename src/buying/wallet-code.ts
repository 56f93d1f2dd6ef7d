import type { Chain } from '../chain/chain.ts'
import { RpcRefusal } from '../chain/rpc.ts'
import type { Clock } from '../lib/clock.ts'
import { monotonicOf } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { MarketError } from '../listings/market-error.ts'
import type { Wallet } from '../payments/wallet.ts'
import type { Hex } from '../schema/primitives.ts'
import { createWalletFunds, type WalletFunds } from './wallet-funds.ts'

/** How long the chain's answer about the wallet's code is used. */
const FRESH_MS = 5 * 60_000
/** A call waits no longer for the RPC. Without an answer, the call goes on and the seller notices a refusal. */
const ANSWER_MS_MAX = 3_000
/** `isValidSignature(bytes32,bytes)` of EIP-1271: selector and magic return value. */
const IS_VALID_SIGNATURE = '0x1626ba7e'

/** The wallet checks before a signature: its code, then its balance. */
export function createWalletChecks(deps: {
  clock: Clock
  logger: Logger
  wallet: Wallet
  chain: Pick<Chain, 'network' | 'request' | 'usdcBalance'>
}): WalletFunds {
  return checkedForCode(createWalletFunds(deps), deps)
}

/**
 * Refuses to sign if the wallet has code (EIP-7702) that makes USDC refuse its payments.
 *
 * For an account with code, USDC asks the code by EIP-1271 and ignores the key. Code that accepts the key's signature
 * is fine. If the RPC does not answer, the check passes. Then `funds` checks the balance.
 */
export function checkedForCode(
  funds: WalletFunds,
  deps: {
    clock: Clock
    logger: Logger
    wallet: Pick<Wallet, 'address' | 'signProbe'>
    chain: Pick<Chain, 'network' | 'request'>
  },
): WalletFunds {
  const { clock, logger, wallet, chain } = deps
  const { address } = wallet
  let known: { takesKey: boolean; at: number } | undefined

  async function takesKey(signal: AbortSignal): Promise<boolean> {
    const code = await chain.request('eth_getCode', [address, 'latest'], signal)
    if (code === '0x' || typeof code !== 'string') return true
    try {
      const call = { to: address, data: encodeIsValidSignature(wallet.signProbe()) }
      const answer = await chain.request('eth_call', [call, 'latest'], signal)
      return typeof answer === 'string' && answer.startsWith(IS_VALID_SIGNATURE)
    } catch (error) {
      if (error instanceof RpcRefusal && error.isRevert) return false
      throw error
    }
  }

  return {
    async check(amount, signal) {
      try {
        if (known === undefined || monotonicOf(clock) - known.at >= FRESH_MS) {
          const bounded = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS_MAX)])
          known = { takesKey: await takesKey(bounded), at: monotonicOf(clock) }
        }
      } catch (err) {
        signal.throwIfAborted()
        logger.debug({ err }, 'the code of the wallet could not be read before a payment')
      }
      if (known?.takesKey === false) {
        // Ask again at the next call, because the owner may change the code at any time.
        known = undefined
        const why = `the wallet ${address} has code on ${chain.network} (EIP-7702) that refuses the signature of its own key`
        const advice = 'Remove the delegation of this account, or use a wallet without code'
        throw new MarketError(
          'WALLET_HAS_CODE',
          `${why}: USDC would refuse the payment, and nothing was signed. ${advice}`,
        )
      }
      await funds.check(amount, signal)
    },
  }
}

function encodeIsValidSignature({ digest, signature }: { digest: Hex; signature: Hex }): Hex {
  const word = (value: number) => value.toString(16).padStart(64, '0')
  const bytes = signature.slice(2)
  const padded = bytes.padEnd(Math.ceil(bytes.length / 64) * 64, '0')
  return `${IS_VALID_SIGNATURE}${digest.slice(2)}${word(64)}${word(bytes.length / 2)}${padded}`
}
