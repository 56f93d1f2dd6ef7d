import type { Charge } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { SignedReceipt } from '../../schema/receipt.ts'
import type { ChannelExtra } from './channel-extra.ts'
import type { DoorAnswer, Settlement } from './door-sales.ts'

/** How a request with a voucher ends. */
export type ChannelAnswer =
  | { kind: 'sold'; output: string; receipt: SignedReceipt | undefined; at: number; payer: Hex; settled: Settled }
  | { kind: 'refunded'; payer: Hex; settled: Settled }
  /** Nothing was charged. `correction`: what the client needs to sign the voucher that is right. */
  | { kind: 'corrected'; reason: string; correction: ChannelExtra | undefined }
  | Exclude<DoorAnswer, { kind: 'result' | 'unsettled' | 'used' }>

/** `txHash`: of a deposit or a refund. Calls have none. */
export type Settled = { txHash: Hex | ''; amount: bigint | undefined; charge: Charge | undefined; extra: ChannelExtra }

/** The errors of x402's scheme begin so. */
export const ERROR = 'invalid_batch_settlement_evm_'
export const MISMATCH = `${ERROR}cumulative_amount_mismatch`
export const RESEND = 'Sign nothing new: send the same request with the same payment again'

export const refused = (reason: string): ChannelAnswer => ({ kind: 'refused', reason })
/** `settlement`: unknown where nobody has looked whether an earlier request has charged the call. */
export const busy = (reason: string, settlement: Settlement = 'none'): ChannelAnswer => ({
  kind: 'busy',
  ...{ reason, settlement },
})
export const tooMany = (): ChannelAnswer => ({
  kind: 'limited',
  reason: 'too many requests on this channel',
  settlement: 'unknown',
})
