import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Facilitator } from '../../src/payments/facilitator.ts'
import { NETWORK } from './terms.ts'

/** A facilitator that accepts everything at once, so that the figures show only the seller's own cost. */
export const instantFacilitator = {
  supported: () => ({ kinds: [{ x402Version: 2, scheme: 'exact', network: NETWORK }], extensions: [], signers: {} }),
  verify: () => ({ isValid: true }),
  settle: () => ({ success: true, transaction: `0x${randomBytes(32).toString('hex')}` as const, network: NETWORK }),
} as const

/** The same in the process of our seller. A settlement takes `settleMs`. */
export function inProcess(settleMs = 0): Facilitator {
  return {
    async settle() {
      if (settleMs > 0) await delay(settleMs)
      return { kind: 'settled', txHash: instantFacilitator.settle().transaction }
    },
    supports: async () => true,
    close: async () => {},
  }
}
