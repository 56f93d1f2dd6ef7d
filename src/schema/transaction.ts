import * as z from 'zod'

const hash = z.string().regex(/^0x[0-9a-f]{64}$/, 'is not a transaction hash: 0x and 64 hex digits in lower case')

export const TransactionParams = z.strictObject({ hash })

export const WaitingTransaction = z
  .object({
    tx_hash: z.string(),
    purpose: z.string().meta({ description: 'purpose of the transaction' }),
    network: z.string(),
    account: z.string(),
    account_nonce: z.int().meta({ description: 'only one transaction with this number can be mined' }),
    to: z.string(),
  })
  .meta({ id: 'WaitingTransaction', description: 'A transaction that the node sent and that is not mined yet.' })
export type WaitingTransaction = z.infer<typeof WaitingTransaction>
export const WaitingTransactions = z.array(WaitingTransaction)

export const MinedTransaction = z
  .object({ tx_hash: z.string().meta({ description: 'the transaction that was mined' }) })
  .meta({ id: 'MinedTransaction' })
export type MinedTransaction = z.infer<typeof MinedTransaction>

/** The node's own transactions that are sent and not mined. */
export type TransactionCalls = {
  open(): Promise<WaitingTransaction[]>
  replace(hash: string, signal: AbortSignal): Promise<MinedTransaction>
  abandon(hash: string, signal: AbortSignal): Promise<MinedTransaction>
}
