import type { Hex } from '../../schema/primitives.ts'
import type { SignedReceipt } from '../../schema/receipt.ts'
import type { StoredPayment } from '../../store/payments.ts'

/** Where the money is: nothing moved, nobody knows yet, or it was paid. */
export type Settlement = 'none' | 'unknown' | 'settled'

/** How a paid request ends. Every answer says what became of the money. */
export type DoorAnswer =
  | { kind: 'result'; id: Hex; output: string; txHash: Hex; payer: Hex; receipt: SignedReceipt | undefined; at: number }
  /** The payment is not as asked: the buyer may sign another. */
  | { kind: 'refused'; reason: string }
  /** The work was done, and its payment can never settle: the result is kept back. */
  | { kind: 'unsettled'; reason: string; payer: Hex }
  /** The payment was used before, for something else. */
  | { kind: 'used'; reason: string }
  /** Whether the payment settles is not known yet. The same request gets the result once it has. */
  | { kind: 'pending'; reason: string }
  | { kind: 'failed'; reason: string; settlement: Settlement }
  /** The result was dropped, or its payment was paid back. */
  | { kind: 'gone'; reason: string; settlement: Settlement }
  | { kind: 'busy'; reason: string; settlement: Settlement }
  | { kind: 'limited'; reason: string; settlement: Settlement }
  | { kind: 'unknown'; reason: string }

export function settlementOf(stored: StoredPayment | undefined): Settlement {
  if (stored?.state === 'settled') return 'settled'
  return stored?.state === 'owed' ? 'unknown' : 'none'
}

export function unsettled({ error, signed }: StoredPayment): DoorAnswer {
  const reason = `the payment could not be settled: ${error ?? 'no reason known'}`
  return { kind: 'unsettled', reason, payer: signed.authorization.from }
}

export function used(): DoorAnswer {
  const reason =
    'this authorization was used before, for another request or at another door: it buys nothing here. Sign a new one'
  return { kind: 'used', reason }
}

export function pending(reason: string): DoorAnswer {
  const advice = 'Do not sign another payment: send the same request with the same payment again to get the result'
  return { kind: 'pending', reason: `${reason}. ${advice}` }
}

export function refused(reason: string): DoorAnswer {
  return { kind: 'refused', reason }
}

export function busy(reason: string, settlement: Settlement): DoorAnswer {
  return { kind: 'busy', reason, settlement }
}
