import { Hold } from '../../src/lib/hold.ts'
import type { PaymentCheck } from '../../src/protocols/doors/payment-check.ts'

/** A check that waits for nothing, and notes what came of each payment. */
export function notedCheck(): PaymentCheck & { readonly heard: ('paid' | 'unsettled' | 'refused')[] } {
  const heard: ('paid' | 'unsettled' | 'refused')[] = []
  return {
    heard,
    turn: async () => new Hold(undefined),
    paid: () => void heard.push('paid'),
    unsettled: () => void heard.push('unsettled'),
    refused: () => void heard.push('refused'),
  }
}
