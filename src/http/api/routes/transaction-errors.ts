/** Errors of a transaction of the node's own account. */
export const TRANSACTION_ERRORS = [
  'CHAIN_UNAVAILABLE',
  'CHAIN_WRONG',
  'WALLET_NO_GAS',
  'TRANSACTION_REVERTED',
  'TRANSACTION_FAILED',
  'TRANSACTION_PENDING',
  'TRANSACTION_LOST',
  'STORE_WRITE_FAILED',
] as const
