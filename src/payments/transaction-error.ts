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

export function ether(wei: bigint): string {
  return formatAmount(wei, ETHER_DECIMALS)
}
