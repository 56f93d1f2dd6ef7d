import { PaymentPayloadV2Schema, PaymentRequirementsV2Schema } from '@x402/core/schemas'
import type { PaymentPayload, PaymentRequirements } from '@x402/core/types'
import * as z from 'zod'
import { Authorization } from '../src/schema/payment.ts'
import { AtomicAmount } from '../src/schema/primitives.ts'
import { AnySignature, ChannelBody, Checksummed } from './channel-body.ts'

/** The body of both /verify and /settle. */
export type PaymentBody = { paymentPayload: PaymentPayload; paymentRequirements: PaymentRequirements }

const Eip3009Payload = z.object({
  signature: AnySignature,
  authorization: Authorization.extend({ from: Checksummed, to: Checksummed }),
})
const Requirements = z.object({ asset: Checksummed, payTo: Checksummed, amount: AtomicAmount })

/**
 * Reads a request body: one about a channel by our own schema, any other by the reference schemas and then its EIP-3009
 * part.
 *
 * Without our schemas, the reference facilitator throws a TypeError on a payload that lacks a field, and the caller gets
 * a 500.
 *
 * @throws RangeError that names the field.
 */
export function parsePaymentBody(body: unknown): PaymentBody {
  const parts = z.object({ paymentPayload: z.unknown(), paymentRequirements: z.unknown() }).safeParse(body)
  if (!parts.success) throw new RangeError('the body must be {x402Version, paymentPayload, paymentRequirements}')
  if ((parts.data.paymentRequirements as { scheme?: unknown } | null)?.scheme === 'batch-settlement') {
    const channel = ChannelBody.safeParse(body)
    if (!channel.success) throw invalid('', channel.error.issues)
    // The reference wants amounts as text, as they came.
    return body as PaymentBody
  }
  const payload = PaymentPayloadV2Schema.safeParse(parts.data.paymentPayload)
  if (!payload.success) throw invalid('paymentPayload', payload.error.issues)
  const requirements = PaymentRequirementsV2Schema.safeParse(parts.data.paymentRequirements)
  if (!requirements.success) throw invalid('paymentRequirements', requirements.error.issues)
  const eip3009 = Eip3009Payload.safeParse(payload.data.payload)
  if (!eip3009.success) throw invalid('paymentPayload.payload', eip3009.error.issues)
  const fields = Requirements.safeParse(requirements.data)
  if (!fields.success) throw invalid('paymentRequirements', fields.error.issues)
  return {
    paymentPayload: payload.data as PaymentPayload,
    paymentRequirements: requirements.data as PaymentRequirements,
  }
}

type Issue = { path: readonly PropertyKey[]; message: string }

function invalid(part: string, issues: readonly Issue[]): RangeError {
  const [issue] = issues
  const path = [part, ...(issue?.path ?? [])].map(String).filter((name) => name !== '')
  return new RangeError(`${path.join('.')}: ${issue?.message ?? 'invalid'}`)
}
