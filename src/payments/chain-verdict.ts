import type { AuthorizationUse, Chain, Transfer } from '../chain/chain.ts'
import type { UnixMs } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Authorization } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Claim } from '../store/payments.ts'
import { sameAddress } from './assets.ts'
import { checksumAddress } from './secp256k1.ts'

/** What of the chain a payment needs. */
export type PaymentChain = Pick<Chain, 'authorizationUse' | 'authorizationAt' | 'transferOf' | 'blockTimeMs'>

/**
 * What the chain says of a payment.
 *
 * `never`: the authorization is spent or cancelled and did not pay this payment. `unknown`: the chain could not be asked,
 * or does not show enough.
 */
export type ChainVerdict =
  | { kind: 'paid'; txHash: Hex }
  | { kind: 'unpaid' }
  | { kind: 'never'; reason: string }
  | { kind: 'unknown'; reason: string }

/** A block that lies past a window by less may still be replaced. */
const FINAL_MARGIN_MS = 30_000
/** A transfer that the chain shows so long after its window stays. */
export const SETTLED_FINAL_MS = 60_000
/** An answer to a buyer waits for settlement, and settlement for this look. */
const SPENT_LOOK_TIMEOUT_MS = 2_000

/**
 * Asks the chain about an authorization whose window has ended. Never throws.
 *
 * It has by our clock, which may be wrong, and an RPC may be behind: `unpaid` is said of a block alone that lies past the
 * window by a margin, and in which the authorization is unused.
 */
export async function askChainAfter(
  chain: PaymentChain,
  asset: Hex,
  authorization: Authorization,
  named?: Hex,
): Promise<ChainVerdict> {
  try {
    const [contract, from] = [checksumAddress(asset), checksumAddress(authorization.from)]
    const { use, timeMs } = await chain.authorizationAt(contract, from, authorization.nonce)
    const verdict = await verdictOf(use, chain, authorization, named)
    const isOver = timeMs > Number(authorization.validBefore) * 1000 + FINAL_MARGIN_MS
    if (verdict.kind !== 'unpaid' || isOver) return verdict
    return { kind: 'unknown', reason: 'by the time of the chain it can still be settled' }
  } catch (error) {
    return { kind: 'unknown', reason: reasonOf(error) }
  }
}

/**
 * Asks the chain whether a payment was made for good. Never throws.
 *
 * `paid` is said of a block alone that lies past the window by the depth at which a transfer stays: what lies less deep may be taken
 * back by a reorganization. By the time of the chain: our clock may be wrong.
 */
export async function askChainFinally(
  chain: PaymentChain,
  asset: Hex,
  authorization: Authorization,
  named: Hex | undefined,
): Promise<ChainVerdict | { kind: 'early'; untilMs: UnixMs }> {
  try {
    const [contract, from] = [checksumAddress(asset), checksumAddress(authorization.from)]
    const { use, timeMs } = await chain.authorizationAt(contract, from, authorization.nonce)
    const verdict = await verdictOf(use, chain, authorization, named)
    const untilMs = Number(authorization.validBefore) * 1000 + SETTLED_FINAL_MS
    return verdict.kind === 'paid' && timeMs < untilMs ? { kind: 'early', untilMs } : verdict
  } catch (error) {
    return { kind: 'unknown', reason: reasonOf(error) }
  }
}

/**
 * Whether a block from `sinceMs` or later shows an authorization as unused. Never throws: false where nobody can say, also as the
 * RPC is behind.
 */
export async function isUnspentSince(
  chain: PaymentChain,
  asset: Hex,
  { from, nonce }: Authorization,
  sinceMs: UnixMs,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const found = await chain.authorizationAt(checksumAddress(asset), checksumAddress(from), nonce, signal)
    return found.use.state === 'unused' && found.timeMs >= sinceMs
  } catch {
    return false
  }
}

/**
 * Asks the chain whether an authorization has paid what it was signed for (T13). Never throws.
 *
 * That its nonce is used is not enough: its owner may have spent the nonce on another transfer. `named` is the transaction
 * that somebody says did it; it is looked at where the chain no longer shows by itself which one it was.
 */
export async function askChain(
  chain: PaymentChain,
  asset: Hex,
  authorization: Authorization,
  named: Hex | undefined,
  signal?: AbortSignal,
): Promise<ChainVerdict> {
  try {
    // As a peer has spelled them, no chain may be asked (D49).
    const [contract, from] = [checksumAddress(asset), checksumAddress(authorization.from)]
    const use = await chain.authorizationUse(contract, from, authorization.nonce, signal)
    return await verdictOf(use, chain, authorization, named, signal)
  } catch (error) {
    return { kind: 'unknown', reason: reasonOf(error) }
  }
}

async function verdictOf(
  use: AuthorizationUse,
  chain: PaymentChain,
  authorization: Authorization,
  named: Hex | undefined,
  signal?: AbortSignal,
): Promise<ChainVerdict> {
  if (use.state === 'unused') return { kind: 'unpaid' }
  if (use.state === 'cancelled') return { kind: 'never', reason: 'the buyer cancelled the authorization on chain' }
  if (use.txHash !== undefined) return judge(use.txHash, use.transfer, authorization)
  const from = checksumAddress(authorization.from)
  const transfer = named && (await chain.transferOf(named, from, authorization.nonce, signal))
  if (named !== undefined && transfer) return judge(named, transfer, authorization)
  return { kind: 'unknown', reason: 'the authorization is spent, but the RPC does not show by which transaction' }
}

/**
 * Why a payment cannot be settled any more, asked before the first attempt of this node. Never throws.
 *
 * A transfer that is there already was made by no attempt of ours: the authorization paid for another run, at a node or shop
 * that shares this wallet (T5). `undefined`: unused, or nobody can say.
 */
export async function spentBefore(
  chain: PaymentChain | undefined,
  { signed, requirements }: Pick<Claim, 'signed' | 'requirements'>,
  outer: AbortSignal,
): Promise<string | undefined> {
  if (chain === undefined) return undefined
  const signal = AbortSignal.any([outer, AbortSignal.timeout(SPENT_LOOK_TIMEOUT_MS)])
  const verdict = await askChain(chain, requirements.asset, signed.authorization, undefined, signal)
  if (verdict.kind === 'never') return verdict.reason
  if (verdict.kind !== 'paid') return undefined
  return `the authorization was spent in ${verdict.txHash}, before the first attempt of this node: it paid for another run`
}

function judge(txHash: Hex, transfer: Transfer, authorization: Authorization): ChainVerdict {
  const ours = sameAddress(transfer.to, authorization.to) && transfer.value === authorization.value
  if (ours) return { kind: 'paid', txHash }
  return { kind: 'never', reason: `the authorization's nonce was spent on another transfer, in ${txHash}` }
}
