import type { Chain } from '../chain/chain.ts'
import type { Clock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { StoredTransaction, Transactions } from '../store/transactions.ts'
import { readQuantity } from './transaction-error.ts'
import type { Wallet } from './wallet.ts'

/** Transactions of the account that may wait before ours. A count outside 0 to 16 is a wrong answer of the RPC. */
export const WAITING_MAX = 16

type NonceDeps = {
  chain: Pick<Chain, 'network' | 'request'>
  wallet: Pick<Wallet, 'address'>
  transactions: Pick<Transactions, 'nextNonce' | 'endedFrom' | 'reopen'>
  clock: Clock
}

/** How many transactions of the account the chain has; `pending`: and how many wait there too. */
export async function countTransactions(
  block: 'latest' | 'pending',
  { chain, wallet }: Pick<NonceDeps, 'chain' | 'wallet'>,
  signal: AbortSignal,
): Promise<number> {
  return Number(readQuantity(await chain.request('eth_getTransactionCount', [wallet.address, block], signal)))
}

/**
 * The account nonce of the next transaction.
 *
 * @returns undefined: a reorganization took back transactions. They wait and must be sent before the next one. A transaction:
 * it failed, and a reorganization took that back. It must not be mined later, because its caller may have sent another one:
 * an empty transaction takes its account nonce
 * @throws CodedError CHAIN_UNAVAILABLE for impossible counts: a transaction with a wrong nonce blocks the account
 */
export async function nextNonce(deps: NonceDeps, signal: AbortSignal): Promise<number | StoredTransaction | undefined> {
  const { chain, wallet, transactions } = deps
  const counts = (['latest', 'pending'] as const).map((block) => countTransactions(block, deps, signal))
  const [latest = 0, pending = 0] = await Promise.all(counts)
  const known = await transactions.nextNonce(chain.network, wallet.address)
  if (latest >= known && pending >= latest && pending <= latest + WAITING_MAX) return pending
  if (latest < known) {
    const dropped = await reopenDropped(latest, deps, signal)
    if (dropped !== false) return dropped
  }
  const said = `the RPC counts ${latest} transactions of ${wallet.address}, ${pending} with those that wait, and this node knows of ${known}`
  throw new CodedError('CHAIN_UNAVAILABLE', `${said}: nothing was sent; try again, or use another RPC`)
}

/**
 * Marks transactions as waiting that the store calls mined and the chain does not know, up to the first that failed.
 *
 * @returns undefined: some wait. A transaction: the first one of them, which failed. False: the chain knows all
 */
async function reopenDropped(
  latest: number,
  { chain, wallet, transactions, clock }: NonceDeps,
  signal: AbortSignal,
): Promise<StoredTransaction | undefined | false> {
  const ended = await transactions.endedFrom(chain.network, wallet.address, latest)
  // A reorganization takes back fewer.
  if (ended.length > WAITING_MAX) return false
  let isAny = false
  for (const one of ended) {
    // An RPC that counts too few may lag, and still show the receipt.
    if ((await chain.request('eth_getTransactionReceipt', [one.hash], signal)) !== null) continue
    if (one.state === 'failed') {
      if (isAny) break
      return one.accountNonce === latest && one
    }
    await transactions.reopen(one.hash, clock.now())
    isAny = true
  }
  return isAny ? undefined : false
}
