import type { Chain } from '../chain/chain.ts'
import { RpcRefusal } from '../chain/rpc.ts'
import { type Clock, monotonicOf } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { MarketError } from '../listings/market-error.ts'
import type { Wallet } from '../payments/wallet.ts'
import { usdc } from '../schema/amount.ts'
import { networkKind, networkText } from '../schema/network-kind.ts'
import type { Hex } from '../schema/primitives.ts'

/** How long the chain's answer about the wallet's code is used. */
const CODE_FRESH_MS = 5 * 60_000
/** How long a call waits for the RPC. Without an answer, the call goes on and the seller notices a refusal. */
const ANSWER_MS_MAX = 3_000
/** `isValidSignature(bytes32,bytes)` of EIP-1271: selector and magic return value. */
const IS_VALID_SIGNATURE = '0x1626ba7e'
/** How long a balance stays in use after it was read. Payments are subtracted from it meanwhile. */
const BALANCE_FRESH_MS = 15_000
const FAUCET = 'https://faucet.circle.com'

type WalletCheckDeps = {
  clock: Clock
  logger: Logger
  wallet: Pick<Wallet, 'address' | 'asset' | 'signProbe'>
  chain: Pick<Chain, 'network' | 'request' | 'usdcBalance'>
}

export interface WalletFunds {
  /**
   * @param what for people, before the amount. Default: what a call costs
   * @throws MarketError INSUFFICIENT_FUNDS if the chain shows less than the amount
   */
  check(amount: bigint, signal: AbortSignal, what?: string): Promise<void>
}

/**
 * The wallet checks before a signature: its code, then its balance.
 *
 * Refuses to sign if the wallet has code (EIP-7702) that makes USDC refuse its payments. For an account with code, USDC
 * asks the code by EIP-1271 and ignores the key. Code that accepts the key's signature is fine. If the RPC does not
 * answer, the check passes.
 */
export function createWalletChecks(deps: WalletCheckDeps, balance = createBalanceCheck(deps)): WalletFunds {
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
    async check(amount, signal, what) {
      try {
        if (known === undefined || monotonicOf(clock) - known.at >= CODE_FRESH_MS) {
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
      await balance.check(amount, signal, what)
    },
  }
}

/**
 * Reads the wallet's balance before a signature. If the RPC does not answer, the check passes.
 *
 * A newly read balance ignores payments that are signed and not settled, because it may include some of them already.
 */
function createBalanceCheck(deps: WalletCheckDeps): WalletFunds {
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
    async check(amount, signal, what = 'this call costs') {
      const isFresh = monotonicOf(clock) - known.at < BALANCE_FRESH_MS
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
      const missing = `${what} ${usdc(amount)}: ${usdc(amount - balance)} are missing, and nothing was signed`
      const faucet = networkKind(asset.network) === 'test' ? `; ${FAUCET} gives test USDC` : ''
      throw new MarketError('INSUFFICIENT_FUNDS', `${holds}, and ${missing}. Send USDC to ${address}${faucet}`)
    },
  }
}

function encodeIsValidSignature({ digest, signature }: { digest: Hex; signature: Hex }): Hex {
  const word = (value: number) => value.toString(16).padStart(64, '0')
  const bytes = signature.slice(2)
  const padded = bytes.padEnd(Math.ceil(bytes.length / 64) * 64, '0')
  return `${IS_VALID_SIGNATURE}${digest.slice(2)}${word(64)}${word(bytes.length / 2)}${padded}`
}
