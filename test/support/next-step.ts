import type { TestSeller } from './x402-seller.ts'

/**
 * Lets time pass to the next step in the outbox of these sellers, which have one clock, and no further. No time passes while a
 * step is under way: on a slow machine the window of a payment would end before its transaction is there.
 */
export async function toNextStep(...sellers: Pick<TestSeller, 'clock' | 'payments'>[]): Promise<void> {
  const due = await Promise.all(sellers.map(({ payments }) => payments.nextDueAt()))
  const { clock } = sellers[0]!
  const nextAt = Math.min(...due.map((at) => at ?? Number.POSITIVE_INFINITY))
  if (nextAt !== Number.POSITIVE_INFINITY && nextAt > clock.now()) clock.set(nextAt)
}
