import type { UnixMs } from '../lib/clock.ts'
import type { PaymentEnvelope, PaymentRequirements, SignedAuthorization } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import type { X402ErrorName } from '../schema/x402.ts'
import { type Asset, assetOf, sameAddress } from './assets.ts'
import { authorizationDigest, paymentIdOf, recoverSigner } from './authorization.ts'
import { addressOfPublicKey, checksumAddress } from './secp256k1.ts'

/** Seconds an authorization must still be valid, so that settlement can reach the chain. */
export const SETTLEMENT_MARGIN_SECONDS = 6
/** Seconds that settlement may need after the run, even with a fast facilitator (D51). */
export const RUN_MARGIN_SECONDS = 30
/**
 * Seconds of the longest window that a buyer at a door may sign beyond what it was asked (D28). The Go client of x402
 * signs for an hour and ignores `maxTimeoutSeconds`.
 */
export const DOOR_WINDOW_SECONDS = 3_600
/** Seconds by which the buyer's clock may run ahead of ours. */
const CLOCK_SKEW_SECONDS = 30

/** What a signature proves. */
export type VerifiedPayment = { paymentId: Hex; payer: Hex; signed: SignedAuthorization }
type Verification = { ok: true; payment: VerifiedPayment } | { ok: false; error: X402ErrorName; reason: string }

/**
 * Decides whether a signed payment meets the requirements at a point in time (D27, D28). The first check that fails
 * names the error. Callers check nonces: see challenges.ts and the claim in settler.ts. `windowSeconds`: a longer window
 * than asked that is taken too. `proved`: what `proveSigner` said of this envelope and asset, if the caller has asked it.
 */
export function verifyPayment(
  envelope: PaymentEnvelope,
  requirements: PaymentRequirements,
  now: UnixMs,
  { windowSeconds = 0, proved }: { windowSeconds?: number; proved?: VerifiedPayment | undefined } = {},
): Verification {
  const { payload } = envelope
  if (payload === undefined) return invalid('the payment has no payload')
  const { authorization } = payload

  // Scheme, network, asset, payTo. The envelope names no asset: it is the network's USDC.
  if (envelope.scheme !== requirements.scheme) return invalid(`scheme must be ${requirements.scheme}`)
  if (envelope.network !== requirements.network) return invalid(`network must be ${requirements.network}`)
  const asset = assetOf(requirements.network)
  if (asset === undefined || !sameAddress(asset.address, requirements.asset)) {
    return invalid('the asset is not USDC of a network this node knows')
  }
  if (!sameAddress(authorization.to, requirements.payTo)) {
    return invalid(`the authorization must pay ${requirements.payTo}`)
  }

  const proof = proved === undefined ? proveSigner(envelope, asset) : { ok: true as const, payment: proved }
  if (!proof.ok) return proof

  // The contract says "amount equals the requirement", so a higher amount is refused as well.
  if (authorization.value !== requirements.amount) {
    return {
      ok: false,
      error: 'PAYMENT_AMOUNT_WRONG',
      reason: `the authorization pays ${authorization.value} atomic units, and the price is ${requirements.amount}`,
    }
  }

  // "Timestamp bounds": valid now, valid long enough to settle, and no longer than agreed.
  const nowSeconds = BigInt(Math.floor(now / 1000))
  const latest = nowSeconds + BigInt(Math.max(requirements.maxTimeoutSeconds, windowSeconds) + CLOCK_SKEW_SECONDS)
  if (authorization.validAfter > nowSeconds)
    return invalid('the authorization is not valid yet: check the clocks of both nodes')
  if (authorization.validBefore < nowSeconds + BigInt(SETTLEMENT_MARGIN_SECONDS)) {
    return invalid('the authorization expires before it could be settled: check the clocks of both nodes')
  }
  if (authorization.validBefore > latest) {
    return invalid('the authorization is valid for longer than maxTimeoutSeconds')
  }

  return proof
}

/** True if a payment that is valid now can be settled after a run of this length. If not, it is settled first (D51). */
export function coversRun({ authorization }: SignedAuthorization, timeoutMs: number, now: UnixMs): boolean {
  return Number(authorization.validBefore) * 1000 >= now + timeoutMs + RUN_MARGIN_SECONDS * 1000
}

/**
 * Recovers the signer and compares it with `payer` and `authorization.from`. Does not check amount or time. Returns
 * signature and accounts in the only form that chain and facilitators accept (D30, D49).
 */
export function proveSigner(envelope: PaymentEnvelope, asset: Asset): Verification {
  const { payload, payer, network } = envelope
  if (payload === undefined) return invalid('the payment has no payload')
  if (network !== asset.network) return invalid(`network must be ${asset.network}`)
  const { authorization, signature } = payload
  if (!sameAddress(authorization.from, payer)) return invalid('payer differs from authorization.from')
  const digest = authorizationDigest(asset, authorization)
  const recovered = recoverSigner(digest, signature)
  if (!recovered.ok) return invalid(recovered.reason)
  const from = addressOfPublicKey(recovered.publicKey)
  if (!sameAddress(from, payer)) return invalid('the signature is not the payer’s')
  const { signature: normalized } = recovered
  const nonce = authorization.nonce.toLowerCase() as Hex
  const signed = {
    signature: normalized,
    authorization: { ...authorization, from, to: checksumAddress(authorization.to), nonce },
  }
  return { ok: true, payment: { paymentId: paymentIdOf(digest), payer: from, signed } }
}

function invalid(reason: string): Verification {
  return { ok: false, error: 'PAYMENT_INVALID', reason }
}
