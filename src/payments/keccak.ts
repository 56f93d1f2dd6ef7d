import { getHashes, hash } from 'node:crypto'
import { createRequire } from 'node:module'

/** Keccak-256, from OpenSSL if it has it (Node 24 and later). OpenSSL is four times as fast as JavaScript. */
export const keccak256: (bytes: Uint8Array) => Uint8Array = nativeKeccak256() ?? nobleKeccak256()

/** @internal Exported for its test. */
export function nativeKeccak256(): ((bytes: Uint8Array) => Uint8Array) | undefined {
  return getHashes().includes('keccak-256') ? (bytes) => hash('keccak-256', bytes, 'buffer') : undefined
}

/** @internal Exported for its test. */
export function nobleKeccak256(): (bytes: Uint8Array) => Uint8Array {
  const require = createRequire(import.meta.url)
  return (require('@noble/hashes/sha3.js') as typeof import('@noble/hashes/sha3.js')).keccak_256
}
