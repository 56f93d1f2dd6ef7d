import type { ReceiptSigner } from '../../payments/receipt-signer.ts'
import { x402ReceiptOf } from '../../payments/x402-receipt.ts'
import { v1NetworkName } from '../../schema/x402-http.ts'
import type { ChannelAnswer } from './channel-answers.ts'
import type { DoorAnswer } from './door-answers.ts'
import type { X402Version } from './payment-header.ts'

type Bought = { agentId: string; network: string; resourceUrl: string }
type Result = Pick<Extract<DoorAnswer, { kind: 'result' }>, 'txHash' | 'payer' | 'receipt' | 'at'>

/** What x402 calls `SettleResponse`. */
export type SettleResponse = {
  success: boolean
  errorReason?: string
  transaction: string
  network: string
  payer: string
  amount?: string
  extra?: object
  extensions?: object
}

/**
 * Tells a buyer that its payment has settled, with two receipts: that of x402's offer-receipt extension, which other clients
 * verify, and ours, which also says which payment, task and result it is about.
 */
export function settledResponse(
  { txHash, payer, receipt, at }: Result,
  { agentId, network, resourceUrl }: Bought,
  signer: Pick<ReceiptSigner, 'signX402'>,
): SettleResponse {
  const canonical = signer.signX402(x402ReceiptOf({ network, agentId, payer, issuedAt: at, txHash, resourceUrl }))
  return {
    ...{ success: true, transaction: txHash, network, payer },
    extensions: {
      'offer-receipt': { info: { receipt: canonical }, schema: receiptSchema },
      ...(receipt !== undefined && { 'stoa-receipt': { info: { receipt } } }),
    },
  }
}

/** Tells what a call on a channel has cost, or what a deposit or a refund moved. Calls have no transaction. */
export function channelResponse(
  answer: Extract<ChannelAnswer, { kind: 'sold' | 'refunded' }>,
  { agentId, network, resourceUrl }: Bought,
  signer: Pick<ReceiptSigner, 'signX402'>,
): SettleResponse {
  const { payer, settled } = answer
  const { txHash, amount, extra } = settled
  const told = { success: true, transaction: txHash, network, payer, amount: amount?.toString() ?? '', extra }
  if (answer.kind === 'refunded') return told
  const { at, receipt } = answer
  const canonical = signer.signX402(x402ReceiptOf({ network, agentId, payer, issuedAt: at, txHash: '', resourceUrl }))
  return {
    ...told,
    extensions: {
      'offer-receipt': { info: { receipt: canonical }, schema: receiptSchema },
      ...(receipt !== undefined && { 'stoa-receipt': { info: { receipt } } }),
    },
  }
}

export function unsettledResponse(
  { reason, payer }: Extract<DoorAnswer, { kind: 'unsettled' }>,
  network: string,
): SettleResponse {
  return { success: false, errorReason: reason.slice(0, 300), transaction: '', network, payer }
}

/** A response as the version of the buyer has it. v1 knows no extensions, and names networks in its own way. */
export function responseOf(version: X402Version, response: SettleResponse): object {
  if (version === 2) return response
  const { extensions: _, network, ...rest } = response
  return { ...rest, network: v1NetworkName(network) }
}

const receiptSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  properties: { receipt: { type: 'object' } },
  required: ['receipt'],
}
