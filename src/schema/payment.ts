import * as z from 'zod'
import { ChannelPayment } from './channel.ts'
import { Address, AnyNetwork, AtomicAmount, Hash32, Signature65, UnixSecondsText } from './primitives.ts'

export const PaymentRequirements = z
  .object({
    scheme: z.literal('exact'),
    network: AnyNetwork,
    amount: AtomicAmount,
    asset: Address,
    payTo: Address,
    maxTimeoutSeconds: z.int().min(1).max(86_400),
    // Parsed separately, because other sellers put other contents here.
    extra: z.unknown().optional().meta({
      description: 'an extension: `{"settles_first": true}` if the seller settles before the agent runs',
    }),
  })
  .meta({ id: 'PaymentRequirements', description: 'The payment that the seller asks for.' })
export type PaymentRequirements = z.infer<typeof PaymentRequirements>

/** True if a seller announces that it settles the payment before its agent runs (D45). */
export function saysSettlesFirst({ extra }: PaymentRequirements): boolean {
  return (extra as { settles_first?: unknown } | null | undefined)?.settles_first === true
}

export const Authorization = z
  .object({
    from: Address,
    to: Address,
    value: AtomicAmount,
    validAfter: UnixSecondsText,
    validBefore: UnixSecondsText,
    nonce: Hash32,
  })
  .meta({ id: 'Authorization', description: 'The arguments of EIP-3009 transferWithAuthorization.' })
export type Authorization = z.infer<typeof Authorization>

export const SignedAuthorization = z.object({ signature: Signature65, authorization: Authorization })
export type SignedAuthorization = z.infer<typeof SignedAuthorization>

export const PaymentEnvelope = z
  .object({
    x402_version: z.literal(2),
    scheme: z.string().max(64),
    network: z.string().max(64),
    server_nonce: z.union([Hash32, z.literal('preemptive')]),
    payer: Address,
    payload: SignedAuthorization.optional().meta({
      description: 'required: without an authorization the seller answers 2001',
    }),
    channel: ChannelPayment.optional().meta({
      description: 'an extension: the payment of the scheme `batch-settlement`, instead of `payload`',
    }),
  })
  .meta({ id: 'PaymentEnvelope', description: 'A signed payment.' })
export type PaymentEnvelope = z.infer<typeof PaymentEnvelope>
