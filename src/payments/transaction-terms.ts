import type { Chain } from '../chain/chain.ts'
import { largest } from '../lib/bigints.ts'
import type { Hex } from '../schema/primitives.ts'
import { bumped, readFees, type Transaction } from './transaction.ts'
import { asRevert, ether, readQuantity, TransactionError } from './transaction-error.ts'

/** Highest gas cost in wei (0.01 ETH). A higher cost means a broken chain or an RPC that lies (T13). */
const COST_MAX = 10n ** 16n
const GAS_MAX = 5_000_000n

type Terms = Pick<Transaction, 'gas' | 'maxPriorityFeePerGas' | 'maxFeePerGas'>
type AskTerms = {
  call: { from: Hex; to: Hex; data: Hex; value: bigint }
  /** The transaction to replace: nodes then require higher fees. */
  stuck?: { raw: Hex } | undefined
  /** The error for an account that cannot pay, with the cost if known. */
  tooPoor(balance: bigint, cost: bigint | undefined): TransactionError
}

/** Asks the chain for gas and fees of a call. @throws TransactionError if it would revert or costs too much */
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
    // Many nodes estimate on the pending block by default. There the transaction to replace has already happened.
    quantity('eth_estimateGas', [asked, 'latest']).catch((error: unknown) =>
      asRevert(error, tooPoor(balance, undefined)),
    ),
    quantity('eth_maxPriorityFeePerGas', []).catch(() => 1_000_000n),
    quantity('eth_gasPrice', []).catch(() => 0n),
  ])
  const gas = (estimate * 5n) / 4n
  const before = stuck && readFees(stuck.raw)
  const maxPriorityFeePerGas = largest(suggestedTip, bumped(before?.maxPriorityFeePerGas))
  // The base fee can double in six blocks. If a block names too low a base fee, the gas price counts.
  const baseFee = readQuantity((block as { baseFeePerGas?: unknown } | null)?.baseFeePerGas)
  const enough = largest(2n * baseFee + maxPriorityFeePerGas, gasPrice)
  const maxFeePerGas = largest(enough, bumped(before?.maxFeePerGas))
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
