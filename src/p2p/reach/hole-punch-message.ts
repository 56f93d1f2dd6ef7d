import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { varint } from './dial-back-message.ts'

/**
 * The messages that two peers exchange before they dial at the same time (libp2p's specification of DCUtR; protobuf).
 */
export type HolePunchMessage = { type: 'connect' | 'sync'; addresses: Multiaddr[] }

/** Longest message in bytes: room for every address of a peer. */
export const HOLE_PUNCH_BYTES_MAX = 4096
const ADDRESSES_MAX = 16
const types = { connect: 100, sync: 300 } as const

/** type: field 1, varint · observed addresses: field 2, bytes, repeated */
export function encodeHolePunch({ type, addresses }: HolePunchMessage): Uint8Array {
  const parts = [0x08, ...varint(types[type])]
  for (const { bytes } of addresses.slice(0, ADDRESSES_MAX)) parts.push(0x12, ...varint(bytes.length), ...bytes)
  return Uint8Array.from(parts)
}

/** Leaves out unreadable addresses. @throws Error if the bytes are not such a message */
export function decodeHolePunch(bytes: Uint8Array): HolePunchMessage {
  let at = 0
  let type: HolePunchMessage['type'] | undefined
  const addresses: Multiaddr[] = []
  const next = (): number => {
    let value = 0
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = bytes[at++]
      if (byte === undefined) throw new Error('the message ends early')
      value |= (byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    throw new Error('a number of the message is too long')
  }
  while (at < bytes.length) {
    const tag = next()
    if (tag === 0x08) {
      const value = next()
      type = value === types.connect ? 'connect' : value === types.sync ? 'sync' : undefined
      continue
    }
    if ((tag & 7) !== 2) throw new Error('the message has a field of a kind it must not have')
    const length = next()
    if (at + length > bytes.length) throw new Error('the message ends early')
    if (tag === 0x12 && addresses.length < ADDRESSES_MAX) {
      try {
        addresses.push(multiaddr(bytes.subarray(at, at + length)))
      } catch {
        // This version does not know this kind of address.
      }
    }
    at += length
  }
  if (type === undefined) throw new Error('the message has no known type')
  return { type, addresses }
}
