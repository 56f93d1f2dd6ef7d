import { ETHER_DECIMALS } from '../chain/ether.ts'
import { RpcRefusal } from '../chain/rpc.ts'
import { CodedError } from '../lib/errors.ts'
import { formatAmount } from '../schema/amount.ts'

export class TransactionError extends CodedError<
  | 'WALLET_NO_GAS'
  | 'INSUFFICIENT_FUNDS'
  | 'TRANSACTION_REVERTED'
  | 'TRANSACTION_FAILED'
  | 'TRANSACTION_PENDING'
  | 'TRANSACTION_LOST'
  | 'TRANSACTION_UNKNOWN'
> {
  override name = 'TransactionError'
}

export function asRevert(error: unknown, noGas: TransactionError): never {
  if (!(error instanceof RpcRefusal)) throw error
  if (!error.isRevert && /insufficient funds/i.test(error.message)) throw noGas
  if (!error.isRevert) throw error
  const reason = error.message.replace(/^.*\): /, '').slice(0, 300)
  throw new TransactionError('TRANSACTION_REVERTED', `the contract refuses it: ${reason}; nothing was sent`, {
    cause: error,
  })
}

export function refusalOf(error: unknown): string {
  if (!(error instanceof RpcRefusal)) throw error
  return error.message.replace(/^.*\): /, '').slice(0, 200)
}

export function readQuantity(result: unknown): bigint {
  if (typeof result === 'string' && /^0x[0-9a-fA-F]{1,64}$/.test(result)) return BigInt(result)
  throw new CodedError('CHAIN_UNAVAILABLE', 'the answer of the RPC is not a number')
}

type Purse = { account: string; network: string; balance: bigint; cost?: bigint | undefined }

/** The error for an account that cannot pay the gas of a call, or the `value` that the call moves. All in wei. */
export function tooPoorFor(value: bigint, { account, network, balance, cost }: Purse): TransactionError {
  const has = `the wallet ${account} has ${ether(balance)} ETH on ${network}`
  const needed = cost === undefined ? 'a little ETH' : `about ${ether(cost)} ETH`
  if (value === 0n) {
    const why = `${has}; writing to the chain needs ${needed} for gas: send it some, nothing was sent`
    return new TransactionError('WALLET_NO_GAS', why)
  }
  const why = `${has}; to send ${ether(value)} ETH takes ${needed} for gas beside it: nothing was sent`
  return new TransactionError('INSUFFICIENT_FUNDS', why)
}

export function ether(wei: bigint): string {
  return formatAmount(wei, ETHER_DECIMALS)
}
