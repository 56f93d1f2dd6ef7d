import type { Hex } from '../schema/primitives.ts'
import type { AgentToken, StoredTransaction } from '../store/transactions.ts'

/** What a transaction of this node's account does. */
export type Call = {
  purpose: string
  to: Hex
  data: Hex
  /** In wei. Default: 0. */
  value?: bigint
  /** Idempotency key: requests with the same key are sent once (D38). */
  key?: string | undefined
  /** Throws if the call must not be sent. Runs before earlier transactions are awaited, and right before signing. */
  guard?: () => Promise<void>
}
export type MinedCall = { hash: Hex; token: AgentToken | undefined }

export function isSame(stored: StoredTransaction, { to, data, value = 0n }: Call): boolean {
  return stored.to === lower(to) && stored.data === lower(data) && stored.value === value
}

export function lower(hex: Hex): Hex {
  return hex.toLowerCase() as Hex
}
