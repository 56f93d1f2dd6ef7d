import { createPublicKey, type KeyObject, verify } from 'node:crypto'

/** An Ed25519 signature to check: 32 bytes of key, the signed bytes, 64 bytes of signature. */
export type SignatureCheck = { key: Uint8Array; signed: Uint8Array; signature: Uint8Array }

/** Lengths in bytes of an Ed25519 key and of a signature. */
export const KEY_BYTES = 32
export const SIGNATURE_BYTES = 64

/** Checks a signature in this thread, in 70 µs. Returns false for an invalid key too. */
export function isGenuine({ key, signed, signature }: SignatureCheck): boolean {
  try {
    return verify(null, signed, keyObject(key), signature)
  } catch {
    return false
  }
}

/** Checks a signature on Node's thread pool. For many at once see signature-pool.ts. */
export function checkSignature({ key, signed, signature }: SignatureCheck): Promise<boolean> {
  return new Promise((resolve) => {
    try {
      verify(null, signed, keyObject(key), signature, (error, ok) => resolve(error === null && ok))
    } catch {
      resolve(false)
    }
  })
}

const HEAD_BYTES = 4 + KEY_BYTES + SIGNATURE_BYTES

/** Packs checks into one array, so that passing them to a thread is one copy. */
export function packChecks(checks: readonly SignatureCheck[]): Uint8Array {
  const packed = Buffer.alloc(checks.reduce((sum, { signed }) => sum + HEAD_BYTES + signed.length, 0))
  let at = 0
  for (const { key, signed, signature } of checks) {
    at = packed.writeUInt32BE(signed.length, at)
    for (const part of [key, signature, signed]) {
      packed.set(part, at)
      at += part.length
    }
  }
  return packed
}

export function* unpackChecks(packed: Uint8Array): Generator<SignatureCheck> {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength)
  for (let at = 0; at < packed.length; ) {
    const end = at + HEAD_BYTES + view.getUint32(at)
    const key = packed.subarray(at + 4, at + 4 + KEY_BYTES)
    const signature = packed.subarray(at + 4 + KEY_BYTES, at + HEAD_BYTES)
    yield { key, signature, signed: packed.subarray(at + HEAD_BYTES, end) }
    at = end
  }
}

function keyObject(key: Uint8Array): KeyObject {
  const x = Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('base64url')
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
}
