import * as z from 'zod'
import { assetOf } from '../payments/assets.ts'
import { SETTLEMENT_MARGIN_SECONDS } from '../payments/verify.ts'
import { type Accepted, mismatch, otherResource } from '../protocols/doors/accepted.ts'
import type { SettleResponse } from '../protocols/doors/settle-response.ts'
import { PeerError } from '../protocols/peer-error.ts'
import { paymentKeys as keys } from '../schema/a2a.ts'
import { type PaymentEnvelope, PaymentRequirements, SignedAuthorization, saysSettlesFirst } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import type { SignedReceipt } from '../schema/receipt.ts'
import type { X402ErrorName } from '../schema/x402.ts'

export type Metadata = Record<string, unknown>

/** The x402 v2 object of a buyer: the accepted requirements and the signature. Unknown fields are dropped. */
const PaymentPayload = z.object({
  x402Version: z.literal(2),
  resource: z.object({ url: z.string().optional() }).nullish(),
  accepted: PaymentRequirements,
  payload: SignedAuthorization,
})

/** `accepted`, `resourceUrl`: what the buyer says that it pays, and for what. */
export type Submitted = {
  kind: 'submitted'
  payment: PaymentEnvelope
  accepted: Accepted
  resourceUrl: string | undefined
}
type Submission = { kind: 'none' } | { kind: 'rejected' } | Submitted | { kind: 'unreadable'; reason: string }

export function readSubmission(metadata: Metadata | undefined): Submission {
  const status = metadata?.[keys.status]
  if (status === 'payment-rejected') return { kind: 'rejected' }
  if (status !== 'payment-submitted') return { kind: 'none' }
  const given = metadata?.[keys.payload]
  const parsed = PaymentPayload.safeParse(given)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    const path = issue?.path.join('.') ?? ''
    return {
      kind: 'unreadable',
      reason: `${keys.payload}: ${path === '' ? '' : `${path}: `}${issue?.message}`.slice(0, 300),
    }
  }
  const { accepted, payload, resource } = parsed.data
  return {
    kind: 'submitted',
    payment: {
      x402_version: 2,
      scheme: accepted.scheme,
      network: accepted.network,
      // The task replaces the challenge: its payment was requested from the holder of its id.
      server_nonce: 'preemptive',
      payer: payload.authorization.from,
      payload,
    },
    // As it was sent: the schema drops what it does not know.
    accepted: (given as { accepted: Accepted }).accepted,
    resourceUrl: resource?.url,
  }
}

/**
 * Why a payment is for something else than its task, or for other terms than are asked. Whether it settles before the run may
 * have changed meanwhile.
 *
 * @param url of the agent, as the buyer uses it
 */
export function otherPurpose(
  { accepted, ...stated }: Submitted,
  requirements: PaymentRequirements,
  url: string,
): PeerError | undefined {
  const other = otherResource(stated, url)
  if (other !== undefined) return new PeerError('PAYMENT_INVALID', other)
  const reason = mismatch([acceptsEntry(requirements, nameOf(requirements))], accepted)
  const isAmount = accepted.amount !== requirements.amount.toString()
  return reason === undefined ? undefined : new PeerError(isAmount ? 'PAYMENT_AMOUNT_WRONG' : 'PAYMENT_INVALID', reason)
}

function nameOf({ network }: PaymentRequirements): { name: string; version: string } {
  const { name, version } = assetOf(network)!
  return { name, version }
}

function acceptsEntry(requirements: PaymentRequirements, extra: object): object {
  return { ...PaymentRequirements.encode(requirements), extra }
}

/** The payment request for the buyer, as an x402 v2 PaymentRequired. */
export function paymentRequired(
  requirements: PaymentRequirements,
  resource: { url: string; description: string },
  { error = 'payment required', extensions }: { error?: string; extensions?: object | undefined } = {},
): Metadata {
  const extra = { ...nameOf(requirements), ...(saysSettlesFirst(requirements) && { settles_first: true }) }
  return {
    [keys.status]: 'payment-required',
    [keys.required]: {
      x402Version: 2,
      error,
      resource: { ...resource, mimeType: 'text/plain' },
      accepts: [acceptsEntry(requirements, extra)],
      ...(extensions !== undefined && { extensions }),
    },
  }
}

type Receipt = {
  network: string
  payer: Hex
  txHash: Hex | undefined
  signed?: SignedReceipt | undefined
  /** What x402 says of the settlement, with the receipt that other clients verify. */
  settled?: SettleResponse | undefined
}

/** `payment-verified`: the result is delivered, and the chain does not show the transfer yet. */
export function paid({ network, payer, txHash, signed, settled }: Receipt): Metadata {
  return {
    [keys.status]: txHash === undefined ? 'payment-verified' : 'payment-completed',
    [keys.receipts]: txHash === undefined ? [] : [settled ?? { success: true, transaction: txHash, network, payer }],
    ...(signed !== undefined && { [keys.signedReceipt]: signed }),
  }
}

export function verified(): Metadata {
  return { [keys.status]: 'payment-verified' }
}

export function paymentRejected(): Metadata {
  return { [keys.status]: 'payment-rejected', [keys.receipts]: [] }
}

export function paymentFailed(code: string, reason: string, network: string): Metadata {
  return {
    [keys.status]: 'payment-failed',
    [keys.error]: code,
    [keys.receipts]: [{ success: false, errorReason: reason, transaction: '', network }],
  }
}

/** Our error codes, as the x402 extension names them. */
const errorCodes: Partial<Record<X402ErrorName, string>> = {
  PAYMENT_INVALID: 'INVALID_SIGNATURE',
  PAYMENT_NONCE_MISMATCH: 'INVALID_SIGNATURE',
  PAYMENT_NONCE_EXPIRED: 'EXPIRED_PAYMENT',
  PAYMENT_NONCE_USED: 'DUPLICATE_NONCE',
  PAYMENT_AMOUNT_WRONG: 'INVALID_AMOUNT',
  SETTLEMENT_FAILED: 'SETTLEMENT_FAILED',
}

/** Splits our PAYMENT_INVALID into three codes of the extension. A code without a counterpart stays as it is. */
export function errorCodeOf(
  error: PeerError,
  payment: PaymentEnvelope,
  requirements: PaymentRequirements,
  now: number,
): string {
  if (error.code === 'PAYMENT_INVALID') {
    if (payment.network !== requirements.network) return 'NETWORK_MISMATCH'
    const validBefore = payment.payload?.authorization.validBefore
    const earliest = BigInt(Math.floor(now / 1000) + SETTLEMENT_MARGIN_SECONDS)
    if (validBefore !== undefined && validBefore < earliest) return 'EXPIRED_PAYMENT'
  }
  return errorCodes[error.code] ?? error.code
}
