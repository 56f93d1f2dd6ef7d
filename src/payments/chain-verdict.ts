import type { AuthorizationUse, Chain, Transfer } from '../chain/chain.ts'
import type { UnixMs } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Authorization } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Claim } from '../store/payments.ts'
import { sameAddress } from './assets.ts'
import { checksumAddress } from './secp256k1.ts'

export type PaymentChain = Pick<Chain, 'authorizationUse' | 'authorizationAt' | 'transferOf' | 'blockTimeMs'>

/**
 * `never`: spent or canceled without paying this payment. `unknown`: the chain gave no answer, or shows too little; with
 * `mayPay` the time of the chain says that the window has not ended, whatever our clock says.
 */
export type ChainVerdict =
  | { kind: 'paid'; txHash: Hex }
  | { kind: 'unpaid' }
  | { kind: 'never'; reason: string }
  | { kind: 'unknown'; reason: string; mayPay?: true }

/** What is asked of the chain. `named`: the transaction that somebody claims settled the payment. */
type PaymentQuery = { asset: Hex; authorization: Authorization; named?: Hex | undefined }

export function queryOf({ signed, requirements }: Pick<Claim, 'signed' | 'requirements'>, named?: Hex): PaymentQuery {
  return { asset: requirements.asset, authorization: signed.authorization, named }
}

/** A block must lie this far past the window. Until then a reorganization may replace it. */
const FINAL_MARGIN_MS = 30_000
/** A transfer is final if the chain still shows it this long after the window. */
export const SETTLED_FINAL_MS = 60_000
/** Limit of the chain read before the first settlement attempt: the buyer's answer waits for it. */
const SPENT_LOOK_TIMEOUT_MS = 2_000

/**
 * Asks about an authorization whose window has ended by our clock. Never throws. Our clock may be wrong and the RPC may
 * lag, so `unpaid` needs a block past the window plus a margin that shows the authorization as unused.
 */
export async function askChainAfter(query: PaymentQuery, chain: PaymentChain): Promise<ChainVerdict> {
  try {
    const { verdict, timeMs } = await verdictNow(query, chain)
    const isOver = timeMs > Number(query.authorization.validBefore) * 1000 + FINAL_MARGIN_MS
    if (verdict.kind !== 'unpaid' || isOver) return verdict
    return { kind: 'unknown', reason: 'by the time of the chain it can still be settled', mayPay: true }
  } catch (error) {
    return { kind: 'unknown', reason: reasonOf(error) }
  }
}

/** Whether the time of the chain has passed an instant. Never throws. @returns undefined if the chain does not answer */
export async function hasPassed(at: UnixMs, chain: Pick<PaymentChain, 'blockTimeMs'>): Promise<boolean | undefined> {
  try {
    return (await chain.blockTimeMs()) > at
  } catch {
    return undefined
  }
}

/**
 * Asks whether a payment is final. Never throws. `paid` needs a block `SETTLED_FINAL_MS` past the window, because until
 * then a reorganization may undo the transfer. Uses the time of the chain, because our clock may be wrong.
 */
export async function askChainFinally(
  query: PaymentQuery,
  chain: PaymentChain,
): Promise<ChainVerdict | { kind: 'early'; untilMs: UnixMs }> {
  try {
    const { verdict, timeMs } = await verdictNow(query, chain)
    const untilMs = Number(query.authorization.validBefore) * 1000 + SETTLED_FINAL_MS
    return verdict.kind === 'paid' && timeMs < untilMs ? { kind: 'early', untilMs } : verdict
  } catch (error) {
    return { kind: 'unknown', reason: reasonOf(error) }
  }
}

/** True if a block from `sinceMs` or later shows the authorization as unused. Never throws. */
export async function isUnspentSince(
  sinceMs: UnixMs,
  { asset, authorization: { from, nonce } }: PaymentQuery,
  chain: PaymentChain,
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
 * Asks whether an authorization has paid what it was signed for (T13). Never throws.
 *
 * A used nonce is not enough: the owner may have spent it on another transfer. The named transaction is read only if
 * the chain no longer shows which transaction used the nonce.
 */
export async function askChain(query: PaymentQuery, chain: PaymentChain, signal?: AbortSignal): Promise<ChainVerdict> {
  try {
    const { asset, authorization } = query
    // RPC nodes refuse addresses in the spelling of some peers (D49).
    const [contract, from] = [checksumAddress(asset), checksumAddress(authorization.from)]
    const use = await chain.authorizationUse(contract, from, authorization.nonce, signal)
    return await verdictOf(use, query, chain, signal)
  } catch (error) {
    return { kind: 'unknown', reason: reasonOf(error) }
  }
}

/** The verdict at the newest block, and the time of that block. */
async function verdictNow(query: PaymentQuery, chain: PaymentChain) {
  const { asset, authorization } = query
  const [contract, from] = [checksumAddress(asset), checksumAddress(authorization.from)]
  const { use, timeMs } = await chain.authorizationAt(contract, from, authorization.nonce)
  return { verdict: await verdictOf(use, query, chain), timeMs }
}

async function verdictOf(
  use: AuthorizationUse,
  { authorization, named }: PaymentQuery,
  chain: PaymentChain,
  signal?: AbortSignal,
): Promise<ChainVerdict> {
  if (use.state === 'unused') return { kind: 'unpaid' }
  if (use.state === 'canceled') return { kind: 'never', reason: 'the buyer canceled the authorization on chain' }
  if (use.txHash !== undefined) return judge(use.txHash, use.transfer, authorization)
  const from = checksumAddress(authorization.from)
  const transfer = named && (await chain.transferOf(named, from, authorization.nonce, signal))
  if (named !== undefined && transfer) return judge(named, transfer, authorization)
  return { kind: 'unknown', reason: 'the authorization is spent, but the RPC does not show by which transaction' }
}

/**
 * Why a payment can no longer be settled, asked before the first attempt of this node. Never throws. A transfer that
 * already exists paid for another run, at a node or shop that shares this wallet (T5).
 */
export async function spentBefore(
  chain: PaymentChain | undefined,
  payment: Pick<Claim, 'signed' | 'requirements'>,
  outer: AbortSignal,
): Promise<string | undefined> {
  if (chain === undefined) return undefined
  const signal = AbortSignal.any([outer, AbortSignal.timeout(SPENT_LOOK_TIMEOUT_MS)])
  const verdict = await askChain(queryOf(payment), chain, signal)
  if (verdict.kind === 'never') return verdict.reason
  if (verdict.kind !== 'paid') return undefined
  return `the authorization was spent in ${verdict.txHash}, before the first attempt of this node: it paid for another run`
}

function judge(txHash: Hex, transfer: Transfer, authorization: Authorization): ChainVerdict {
  const ours = sameAddress(transfer.to, authorization.to) && transfer.value === authorization.value
  if (ours) return { kind: 'paid', txHash }
  return { kind: 'never', reason: `the authorization's nonce was spent on another transfer, in ${txHash}` }
}
