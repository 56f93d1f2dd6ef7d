import type { Hex } from '../schema/primitives.ts'
import type { AgentToken, StoredTransaction } from '../store/transactions.ts'

/** What a transaction of this node's account does. */
export type Call = {
  purpose: string
  to: Hex
  data: Hex
  /** Wei; none unless given. */
  value?: bigint
  /** Names the request: with the same key it is sent once, however often it is asked for (D38). */
  key?: string | undefined
  /** Throws where it must not be sent. Asked before others are waited for, and again right before it is signed. */
  guard?: () => Promise<void>
}
/** A transaction that happened, and what it minted. */
export type Mined = { hash: Hex; token: AgentToken | undefined }

/** Whether a stored transaction does the same. */
export function isSame(stored: StoredTransaction, { to, data, value = 0n }: Call): boolean {
  return stored.to === lower(to) && stored.data === lower(data) && stored.value === value
}

export function lower(hex: Hex): Hex {
  return hex.toLowerCase() as Hex
}
