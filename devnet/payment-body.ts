import { PaymentPayloadV2Schema, PaymentRequirementsV2Schema } from '@x402/core/schemas'
import type { PaymentPayload, PaymentRequirements } from '@x402/core/types'
import { isAddress } from 'viem'
import * as z from 'zod'
import { Authorization } from '../src/schema/payment.ts'
import { Address, AtomicAmount } from '../src/schema/primitives.ts'

/** The body of both /verify and /settle. */
export type PaymentBody = { paymentPayload: PaymentPayload; paymentRequirements: PaymentRequirements }

/** viem throws on an address whose checksum (letter case) is wrong. */
const Checksummed = Address.refine((address) => isAddress(address), 'is not an address: the checksum is wrong')

/** A contract's signature (EIP-1271) may be longer than a key's 65 bytes. */
const Eip3009Payload = z.object({
  signature: z.string().regex(/^0x([0-9a-fA-F]{2}){1,4096}$/, 'not hex of 1 to 4096 bytes'),
  authorization: Authorization.extend({ from: Checksummed, to: Checksummed }),
})
const Requirements = z.object({ asset: Checksummed, payTo: Checksummed, amount: AtomicAmount })

/**
 * Reads a request body by the reference schemas, then checks its EIP-3009 part.
 *
 * Without the second check, the reference facilitator throws a TypeError on a payload that lacks a field, and the
 * caller gets a 500.
 *
 * @throws RangeError that names the field.
 */
export function parsePaymentBody(body: unknown): PaymentBody {
  const parts = z.object({ paymentPayload: z.unknown(), paymentRequirements: z.unknown() }).safeParse(body)
  if (!parts.success) throw new RangeError('the body must be {x402Version, paymentPayload, paymentRequirements}')
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
  return new RangeError(`${[part, ...(issue?.path ?? [])].map(String).join('.')}: ${issue?.message ?? 'invalid'}`)
}
