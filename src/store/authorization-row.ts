import type { PaymentRequirements, SignedAuthorization } from '../schema/payment.ts'
import type { Hex, Network } from '../schema/primitives.ts'
import { toBytes, toHex } from './hex.ts'

/** An authorization and its requirements as columns. Amounts and accounts agree: this node verified or signed them. */
export type AuthorizationRow = {
  network: string
  asset: string
  pay_to: string
  amount: number
  max_timeout_s: number
  payer: string
  authorization_nonce: Uint8Array
  valid_after_s: number
  valid_before_s: number
  signature: Uint8Array
}

export const AUTHORIZATION_COLUMNS =
  'network, asset, pay_to, amount, max_timeout_s, payer, authorization_nonce, valid_after_s, valid_before_s, signature'
export const AUTHORIZATION_PLACES = '?, ?, ?, ?, ?, ?, ?, ?, ?, ?'

/** Values in the order of the columns. */
export function authorizationValues(
  requirements: PaymentRequirements,
  { authorization, signature }: SignedAuthorization,
) {
  return [
    requirements.network,
    requirements.asset,
    requirements.payTo,
    requirements.amount,
    requirements.maxTimeoutSeconds,
    authorization.from,
    toBytes(authorization.nonce),
    authorization.validAfter,
    authorization.validBefore,
    toBytes(signature),
  ] as const
}

export function authorizationOf(row: AuthorizationRow): {
  requirements: PaymentRequirements
  signed: SignedAuthorization
} {
  const amount = BigInt(row.amount)
  return {
    requirements: {
      scheme: 'exact',
      network: row.network as Network,
      amount,
      asset: row.asset as Hex,
      payTo: row.pay_to as Hex,
      maxTimeoutSeconds: row.max_timeout_s,
    },
    signed: {
      signature: toHex(row.signature),
      authorization: {
        from: row.payer as Hex,
        to: row.pay_to as Hex,
        value: amount,
        validAfter: BigInt(row.valid_after_s),
        validBefore: BigInt(row.valid_before_s),
        nonce: toHex(row.authorization_nonce),
      },
    },
  }
}
