import { doubledMs } from '../lib/retry.ts'
import { pause } from '../lib/wait.ts'
import type { Hex } from '../schema/primitives.ts'
import type { StoredPayment } from '../store/payments.ts'

const POLL = { firstMs: 50, mostMs: 1_000 }

/** `look` asks the chain once and saves the answer. `ended` stops the wait. */
type SettlementWatch = { payment(): Promise<StoredPayment | undefined>; look(): Promise<void>; ended(): boolean }

/** Waits up to `limitMs` until the ledger says that the chain shows a payment. @returns its transaction, if it does */
export async function untilShown({ payment, look, ended }: SettlementWatch, limitMs: number): Promise<Hex | undefined> {
  const end = performance.now() + limitMs
  for (let looks = 1; !ended(); looks++) {
    await look()
    const { state, txHash } = (await payment()) ?? {}
    if (state !== 'owed') return state === 'settled' ? txHash : undefined
    const waitMs = doubledMs(looks, POLL)
    if (performance.now() + waitMs > end) return undefined
    await pause(waitMs)
  }
  return undefined
}
