import type { Chain } from '../chain/chain.ts'
import type { Hex } from '../schema/primitives.ts'
import { bumped, larger, readFees, type Transaction } from './transaction.ts'
import { asRevert, ether, readQuantity, TransactionError } from './transaction-error.ts'

/** More than any call of ours needs; a chain that asks for more has lost its senses, or its RPC lies (T13). */
const COST_MAX = 10n ** 16n
const GAS_MAX = 5_000_000n

export type Terms = Pick<Transaction, 'gas' | 'maxPriorityFeePerGas' | 'maxFeePerGas'>
type AskTerms = {
  call: { from: Hex; to: Hex; data: Hex; value: bigint }
  /** The one whose place it takes: nodes want higher fees then. */
  stuck?: { raw: Hex } | undefined
  /** What is thrown where the account cannot pay, and how much it would take. */
  tooPoor(balance: bigint, cost: bigint | undefined): TransactionError
}

/** Asks the chain for gas and fees of a call. @throws TransactionError for what would revert, costs too much or cannot be paid for */
export async function askTerms(
  chain: Pick<Chain, 'request'>,
  { call, stuck, tooPoor }: AskTerms,
  signal: AbortSignal,
): Promise<Terms> {
  const { from, to, data, value } = call
  const asked = { from, to, data, ...(value > 0n && { value: `0x${value.toString(16)}` }) }
  const quantity = async (method: string, params: readonly unknown[]) =>
    readQuantity(await chain.request(method, params, signal))
  const [balance, block] = await Promise.all([
    quantity('eth_getBalance', [from, 'latest']),
    chain.request('eth_getBlockByNumber', ['latest', false], signal),
  ])
  if (balance <= value) throw tooPoor(balance, undefined)
  const [estimate, suggestedTip, gasPrice] = await Promise.all([
    // Many nodes take the pending block by default: there the one whose place it takes has happened already.
    quantity('eth_estimateGas', [asked, 'latest']).catch((error: unknown) =>
      asRevert(error, tooPoor(balance, undefined)),
    ),
    quantity('eth_maxPriorityFeePerGas', []).catch(() => 1_000_000n),
    quantity('eth_gasPrice', []).catch(() => 0n),
  ])
  const gas = (estimate * 5n) / 4n
  const before = stuck && readFees(stuck.raw)
  const maxPriorityFeePerGas = larger(suggestedTip, bumped(before?.maxPriorityFeePerGas))
  // The base fee can double in six blocks. A block that names too low a fee is outvoted by the gas price.
  const baseFee = readQuantity((block as { baseFeePerGas?: unknown } | null)?.baseFeePerGas)
  const enough = larger(2n * baseFee + maxPriorityFeePerGas, gasPrice)
  const maxFeePerGas = larger(enough, bumped(before?.maxFeePerGas))
  const cost = gas * maxFeePerGas
  if (gas > GAS_MAX || cost > COST_MAX) {
    throw new TransactionError(
      'TRANSACTION_REVERTED',
      `the chain asks for up to ${ether(cost)} ETH of gas, the limit is ${ether(COST_MAX)}: nothing was sent`,
    )
  }
  if (balance < cost + value) throw tooPoor(balance, cost)
  return { gas, maxPriorityFeePerGas, maxFeePerGas }
}
