import type { Hex } from '../schema/primitives.ts'
import type { SignedX402Offer, X402Offer } from '../schema/x402-http.ts'
import { recoverSigner, typedDigest } from './authorization.ts'
import { keccak256 } from './keccak.ts'
import { addressOfPublicKey } from './secp256k1.ts'
import { textHash } from './text-hash.ts'

const WORD_BYTES = 32

const TYPE = textHash(
  'Offer(uint256 version,string resourceUrl,string scheme,string network,string asset,string payTo,string amount,uint256 validUntil)',
)
const offerDomain = domain()

/** The digest of an offer as x402's offer-receipt extension has it. */
export function x402OfferDigest(offer: X402Offer): Uint8Array {
  const words = Buffer.alloc(9 * WORD_BYTES)
  words.set(TYPE, 0)
  words[2 * WORD_BYTES - 1] = offer.version
  const texts = [offer.resourceUrl, offer.scheme, offer.network, offer.asset, offer.payTo, offer.amount]
  for (const [at, value] of texts.entries()) words.set(textHash(value), (2 + at) * WORD_BYTES)
  words.writeBigUInt64BE(BigInt(offer.validUntil), 9 * WORD_BYTES - 8)
  return typedDigest(offerDomain, words)
}

/** @internal Exported for its test. */
export function x402OfferSigner({ payload, signature }: SignedX402Offer): Hex | undefined {
  const recovered = recoverSigner(x402OfferDigest(payload), signature)
  return recovered.ok ? addressOfPublicKey(recovered.publicKey) : undefined
}

/** Always chain 1, because offers never go to a chain. */
function domain(): Uint8Array {
  const words = Buffer.alloc(4 * WORD_BYTES)
  words.set(textHash('EIP712Domain(string name,string version,uint256 chainId)'), 0)
  words.set(textHash('x402 offer'), WORD_BYTES)
  words.set(textHash('1'), 2 * WORD_BYTES)
  words[4 * WORD_BYTES - 1] = 1
  return keccak256(words)
}
