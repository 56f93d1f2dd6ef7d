import type { Charge } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { SignedReceipt } from '../../schema/receipt.ts'
import type { ChannelPayload } from '../../schema/x402-http.ts'
import { type ChannelExtra, channelExtra, correctionOf } from './channel-extra.ts'
import type { DoorAnswer, Settlement } from './door-answers.ts'

/** How a request with a voucher ends. */
export type ChannelAnswer =
  | { kind: 'sold'; output: string; receipt: SignedReceipt | undefined; at: number; payer: Hex; settled: Settled }
  | { kind: 'refunded'; payer: Hex; settled: Settled }
  /** Nothing was charged. `correction`: what the client needs to sign the voucher that is right. */
  | { kind: 'corrected'; reason: string; correction: ChannelExtra | undefined }
  | Exclude<DoorAnswer, { kind: 'result' | 'unsettled' | 'used' }>

/** `txHash`: of a deposit or a refund. Calls have none. */
type Settled = { txHash: Hex | ''; amount: bigint | undefined; charge: Charge | undefined; extra: ChannelExtra }

/** The errors of x402's scheme begin so. */
export const ERROR = 'invalid_batch_settlement_evm_'
const MISMATCH = `${ERROR}cumulative_amount_mismatch`
export const RESEND = 'Sign nothing new: send the same request with the same payment again'

/** For a voucher that is not for what was charged and the price. */
export const corrected = (channel: Parameters<typeof correctionOf>[0]): ChannelAnswer => ({
  kind: 'corrected',
  ...{ reason: MISMATCH, correction: correctionOf(channel) },
})
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

/** How a charged call is settled. `txHash`: of a deposit that came with it. */
export function settledBy(
  open: { channel: Parameters<typeof channelExtra>[0] } | undefined,
  { charge, txHash, payload }: { charge: Charge; txHash: Hex | ''; payload: ChannelPayload },
): Settled {
  const extra = open === undefined ? {} : channelExtra(open.channel, charge.total)
  const amount = payload.type === 'deposit' && txHash !== '' ? payload.deposit.amount : undefined
  return { txHash, amount, charge, extra: { chargedAmount: charge.amount.toString(), ...extra } }
}
