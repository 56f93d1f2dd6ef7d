import type { Authorization } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Asset } from './assets.ts'
import { keccak256 } from './keccak.ts'
import { type Secp256k1, secp256k1 } from './secp256k1.ts'
import { textHash } from './text-hash.ts'

const WORD_BYTES = 32
const ADDRESS_BYTES = 20
const HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n

const DOMAIN_TYPE = textHash('EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)')
const AUTHORIZATION_TYPE = textHash(
  'TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)',
)

/** The EIP-712 domain of a contract: an asset, for example. */
export type TypedDomain = Pick<Asset, 'name' | 'version' | 'chainId' | 'address'>

const domainSeparators = new Map<TypedDomain, Uint8Array>()

/** The hash of the domain under which a contract checks signatures. Computed once for each domain object. */
export function domainSeparator(domain: TypedDomain): Uint8Array {
  let separator = domainSeparators.get(domain)
  if (separator === undefined) {
    const words = Buffer.alloc(5 * WORD_BYTES)
    words.set(DOMAIN_TYPE, 0)
    words.set(textHash(domain.name), WORD_BYTES)
    words.set(textHash(domain.version), 2 * WORD_BYTES)
    writeUint(words, 3, BigInt(domain.chainId))
    writeAddress(words, 4, domain.address)
    separator = keccak256(words)
    domainSeparators.set(domain, separator)
  }
  return separator
}

/** The 32 bytes that the payer signs: the EIP-712 digest of an authorization (D29). */
export function authorizationDigest(asset: Asset, authorization: Authorization): Uint8Array {
  const words = Buffer.alloc(7 * WORD_BYTES)
  words.set(AUTHORIZATION_TYPE, 0)
  writeAddress(words, 1, authorization.from)
  writeAddress(words, 2, authorization.to)
  writeUint(words, 3, authorization.value)
  writeUint(words, 4, authorization.validAfter)
  writeUint(words, 5, authorization.validBefore)
  words.write(authorization.nonce.slice(2), 6 * WORD_BYTES, WORD_BYTES, 'hex')
  return typedDigest(domainSeparator(asset), words)
}

/** The EIP-712 digest of an encoded struct. */
export function typedDigest(domain: Uint8Array, struct: Uint8Array): Uint8Array {
  const signed = Buffer.allocUnsafe(2 + 2 * WORD_BYTES)
  signed[0] = 0x19
  signed[1] = 0x01
  signed.set(domain, 2)
  signed.set(keccak256(struct), 2 + WORD_BYTES)
  return keccak256(signed)
}

/** The payment id that buyer and seller use: the digest as hex (D29). */
export function paymentIdOf(digest: Uint8Array): Hex {
  return `0x${Buffer.from(digest).toString('hex')}`
}

/** Signs a digest in the form that the USDC contract accepts: r, low s, v of 27 or 28. */
export function signDigest(digest: Uint8Array, privateKey: Uint8Array, curve: Secp256k1 = secp256k1): Hex {
  const { compact, recovery } = curve.sign(digest, privateKey)
  return `0x${Buffer.from(compact).toString('hex')}${recovery === 0 ? '1b' : '1c'}`
}

type SignerRecovery = { ok: true; publicKey: Uint8Array; signature: Hex } | { ok: false; reason: string }

/** Changes a `v` of 0 or 1 to 27 or 28, and refuses a high s, because the USDC contract rejects it (D30). */
export function recoverSigner(digest: Uint8Array, signature: string, curve: Secp256k1 = secp256k1): SignerRecovery {
  const bytes = Buffer.from(signature.slice(2), 'hex')
  const v = bytes[64]!
  const recovery = v === 0 || v === 27 ? 0 : v === 1 || v === 28 ? 1 : undefined
  if (recovery === undefined) return { ok: false, reason: `v of the signature is ${v}, allowed are 27, 28, 0 and 1` }
  if (BigInt(`0x${bytes.toString('hex', 32, 64)}`) > HALF_ORDER) {
    return { ok: false, reason: 's of the signature is in the upper half of the order' }
  }
  const compact = bytes.subarray(0, 64)
  const publicKey = curve.recover(digest, { compact, recovery })
  if (publicKey === undefined) return { ok: false, reason: 'no key can have made this signature' }
  return { ok: true, publicKey, signature: `0x${compact.toString('hex')}${recovery === 0 ? '1b' : '1c'}` }
}

function writeUint(words: Buffer, index: number, value: bigint): void {
  words.write(value.toString(16).padStart(2 * WORD_BYTES, '0'), index * WORD_BYTES, WORD_BYTES, 'hex')
}

function writeAddress(words: Buffer, index: number, address: string): void {
  words.write(address.slice(2), index * WORD_BYTES + WORD_BYTES - ADDRESS_BYTES, ADDRESS_BYTES, 'hex')
}
