/** DHT messages written by hand: an attacker's message may hold anything. */
import type { PeerId } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'

export const ADD_PROVIDER = 2
export const GET_PROVIDERS = 3
export const FIND_NODE = 4

type Named = { id: PeerId; multiaddrs: readonly Multiaddr[] }

/** Encodes one message with its length prefix. */
export function dhtMessage(
  type: number,
  { key, closer = [], providers = [] }: { key: Uint8Array; closer?: readonly Named[]; providers?: readonly Named[] },
): Uint8Array {
  const body = join(
    Uint8Array.of(1 << 3, type),
    field(2, key),
    ...closer.map((peer) => field(8, named(peer))),
    ...providers.map((peer) => field(9, named(peer))),
  )
  return join(number(body.length), body)
}

function named({ id, multiaddrs }: Named): Uint8Array {
  return join(field(1, id.toMultihash().bytes), ...multiaddrs.map(({ bytes }) => field(2, bytes)))
}

function field(at: number, bytes: Uint8Array): Uint8Array {
  return join(number((at << 3) | 2), number(bytes.length), bytes)
}

function number(value: number): Uint8Array {
  const bytes: number[] = []
  for (let rest = value; ; rest >>>= 7) {
    bytes.push(rest > 127 ? (rest & 127) | 128 : rest)
    if (rest <= 127) return Uint8Array.from(bytes)
  }
}

function join(...parts: Uint8Array[]): Uint8Array {
  return Buffer.concat(parts)
}
