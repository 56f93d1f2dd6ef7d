import type { Chain } from '../chain/chain.ts'
import { CodedError } from '../lib/errors.ts'
import type { Transactions } from '../store/transactions.ts'
import { readQuantity } from './transaction-error.ts'
import type { Wallet } from './wallet.ts'

/** Transactions of the account that may wait before ours. A count outside 0 to 16 is a wrong answer of the RPC. */
export const WAITING_MAX = 16

type NonceDeps = {
  chain: Pick<Chain, 'network' | 'request'>
  wallet: Pick<Wallet, 'address'>
  transactions: Pick<Transactions, 'nextNonce'>
}

/** How many transactions of the account the chain has; `pending`: and how many wait there too. */
export async function countTransactions(
  block: 'latest' | 'pending',
  { chain, wallet }: Pick<NonceDeps, 'chain' | 'wallet'>,
  signal: AbortSignal,
): Promise<number> {
  return Number(readQuantity(await chain.request('eth_getTransactionCount', [wallet.address, block], signal)))
}

/** @throws CodedError CHAIN_UNAVAILABLE for impossible counts: a transaction with a wrong nonce blocks the account */
export async function nextNonce(deps: NonceDeps, signal: AbortSignal): Promise<number> {
  const { chain, wallet, transactions } = deps
  const counts = (['latest', 'pending'] as const).map((block) => countTransactions(block, deps, signal))
  const [latest = 0, pending = 0] = await Promise.all(counts)
  const known = await transactions.nextNonce(chain.network, wallet.address)
  if (latest >= known && pending >= latest && pending <= latest + WAITING_MAX) return pending
  const said = `the RPC counts ${latest} transactions of ${wallet.address}, ${pending} with those that wait, and this node knows of ${known}`
  throw new CodedError('CHAIN_UNAVAILABLE', `${said}: nothing was sent; try again, or use another RPC`)
}
