import { hkdfSync } from 'node:crypto'
import type { Hex } from '../../schema/primitives.ts'
import { signDigest } from '../authorization.ts'
import { addressOfPublicKey, secp256k1 } from '../secp256k1.ts'

/** A key beside the wallet that signs one kind of thing. The key stays inside. */
export type ChannelSigner = { readonly address: Hex; sign(digest: Uint8Array): Hex }

/**
 * What the keys are for: `vouchers` of the channels that this node pays by, and `claims` and refunds of those that it is
 * paid by. Each is made from the wallet key, so it needs no file and no backup, and all processes with one wallet have the
 * same. A leaked key does not reveal the wallet key.
 */
export type ChannelKeyUse = 'vouchers' | 'claims'

/** @param walletKey 32 bytes */
export function createChannelSigner(walletKey: Uint8Array, use: ChannelKeyUse): ChannelSigner {
  const key = deriveKey(walletKey, use)
  return { address: addressOfPublicKey(secp256k1.publicKey(key)), sign: (digest) => signDigest(digest, key) }
}

/** One in 2^128 bytes is no key of the curve. Then the next one is taken. */
function deriveKey(walletKey: Uint8Array, use: ChannelKeyUse): Uint8Array {
  for (let attempt = 0; ; attempt++) {
    const info = `stoa channel ${use} ${attempt}`
    const key = new Uint8Array(hkdfSync('sha256', walletKey, new Uint8Array(0), info, 32))
    try {
      secp256k1.publicKey(key)
      return key
    } catch {}
  }
}
