import { setTimeout as wait } from 'node:timers/promises'
import type { Hex } from '../schema/primitives.ts'
import type { StoredPayment } from '../store/payments.ts'

/** Between two looks at the chain: it doubles from the first to the second. */
const POLL_MS = 50
const POLL_MAX_MS = 1_000

/** `look` asks the chain once and saves what it shows; `ended` stops the wait. */
export type Watched = { payment(): StoredPayment | undefined; look(): Promise<void>; ended(): boolean }

/**
 * Waits until the ledger says that the chain shows a payment, for `limitMs` at most.
 *
 * @returns the transaction, or undefined when the chain does not show it in time or the payment ended otherwise
 */
export async function untilShown({ payment, look, ended }: Watched, limitMs: number): Promise<Hex | undefined> {
  const end = performance.now() + limitMs
  for (let waitMs = POLL_MS; !ended(); waitMs = Math.min(2 * waitMs, POLL_MAX_MS)) {
    await look()
    const { state, txHash } = payment() ?? {}
    if (state !== 'owed') return state === 'settled' ? txHash : undefined
    if (performance.now() + waitMs > end) return undefined
    await wait(waitMs)
  }
  return undefined
}
