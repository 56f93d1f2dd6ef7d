import { createECDH } from 'node:crypto'
import { createRequire } from 'node:module'
import { BoundedMap } from '../lib/bounded-map.ts'
import type { Hex } from '../schema/primitives.ts'
import { keccak256 } from './keccak.ts'

/** A compact signature: 32 bytes r, 32 bytes s, and which of the two possible keys signed. */
type Signature = { compact: Uint8Array; recovery: 0 | 1 }

/** The curve operations for signing and recovering. Public keys are 65 bytes, uncompressed. */
export interface Secp256k1 {
  readonly name: 'native' | 'noble'
  publicKey(privateKey: Uint8Array): Uint8Array
  /** Deterministic (RFC 6979), low s. */
  sign(digest: Uint8Array, privateKey: Uint8Array): Signature
  /** The key that made the signature, or undefined if the signature is invalid. */
  recover(digest: Uint8Array, signature: Signature): Uint8Array | undefined
}

const require = createRequire(import.meta.url)
const PRIVATE_KEY_BYTES = 32

/** libsecp256k1 through N-API, twenty times as fast as JavaScript; undefined if there is no build for this machine. */
export function nativeSecp256k1(): Secp256k1 | undefined {
  let native: typeof import('secp256k1/bindings.js').default
  try {
    native = require('secp256k1/bindings.js')
  } catch {
    return undefined
  }
  return {
    name: 'native',
    publicKey: (privateKey) => native.publicKeyCreate(privateKey, false),
    sign(digest, privateKey) {
      const { signature, recid } = native.ecdsaSign(digest, privateKey)
      return { compact: signature, recovery: recid as 0 | 1 }
    },
    recover(digest, { compact, recovery }) {
      try {
        return native.ecdsaRecover(compact, recovery, digest, false)
      } catch {
        return undefined
      }
    },
  }
}

/** The curve in JavaScript, for machines without a native build. */
export function nobleSecp256k1(): Secp256k1 {
  const { secp256k1 } = require('@noble/curves/secp256k1.js') as typeof import('@noble/curves/secp256k1.js')
  return {
    name: 'noble',
    publicKey: (privateKey) => secp256k1.getPublicKey(privateKey, false),
    sign(digest, privateKey) {
      const recovered = secp256k1.sign(digest, privateKey, { prehash: false, format: 'recovered' })
      return { compact: recovered.subarray(1), recovery: recovered[0] as 0 | 1 }
    },
    recover(digest, { compact, recovery }) {
      try {
        const point = secp256k1.Signature.fromBytes(compact, 'compact')
          .addRecoveryBit(recovery)
          .recoverPublicKey(digest)
        return point.toBytes(false)
      } catch {
        return undefined
      }
    },
  }
}

let loaded: Secp256k1 | undefined
function fastest(): Secp256k1 {
  loaded ??= nativeSecp256k1() ?? nobleSecp256k1()
  return loaded
}

/** The fastest implementation here. It loads with the first signature: deriving an account does not need it. */
export const secp256k1: Secp256k1 = {
  get name() {
    return fastest().name
  },
  publicKey: (privateKey) => openSslPublicKey(privateKey) ?? fastest().publicKey(privateKey),
  sign: (digest, privateKey) => fastest().sign(digest, privateKey),
  recover: (digest, signature) => fastest().recover(digest, signature),
}

/** Derives the public key with Node's OpenSSL; undefined if OpenSSL lacks the curve or rejects the key. */
export function openSslPublicKey(privateKey: Uint8Array): Uint8Array | undefined {
  // OpenSSL would accept a shorter key as a number.
  if (privateKey.length !== PRIVATE_KEY_BYTES) return undefined
  try {
    const ecdh = createECDH('secp256k1')
    ecdh.setPrivateKey(privateKey)
    return ecdh.getPublicKey()
  } catch {
    return undefined
  }
}

/** The account of an uncompressed public key. */
export function addressOfPublicKey(publicKey: Uint8Array): Hex {
  return checksumAddress(`0x${Buffer.from(keccak256(publicKey.subarray(1)).subarray(12)).toString('hex')}`)
}

/** Addresses that were spelled lately. Payees and payers come again, and each more than once in a call. */
const spelled = new BoundedMap<Hex, Hex>(1_024)

/** An address in the only spelling that is stored, compared and submitted (EIP-55, D49). Accepts any letter case. */
export function checksumAddress(address: Hex): Hex {
  const known = spelled.get(address)
  if (known !== undefined) return known
  const made = spell(address)
  for (const each of [address, made]) spelled.set(each, made)
  return made
}

function spell(address: Hex): Hex {
  const hex = address.slice(2).toLowerCase()
  const hash = keccak256(Buffer.from(hex, 'latin1'))
  let text = '0x'
  for (let index = 0; index < hex.length; index++) {
    const nibble = (hash[index >> 1]! >> (index % 2 === 0 ? 4 : 0)) & 15
    text += nibble >= 8 ? hex[index]!.toUpperCase() : hex[index]
  }
  return text as Hex
}
