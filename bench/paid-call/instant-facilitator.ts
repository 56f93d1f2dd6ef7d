import { randomBytes } from 'node:crypto'
import { NETWORK } from './terms.ts'

/** A facilitator that accepts everything at once, so that the figures show only the seller's own cost. */
export const instantFacilitator = {
  supported: () => ({ kinds: [{ x402Version: 2, scheme: 'exact', network: NETWORK }], extensions: [], signers: {} }),
  verify: () => ({ isValid: true }),
  settle: () => ({ success: true, transaction: `0x${randomBytes(32).toString('hex')}` as const, network: NETWORK }),
} as const
