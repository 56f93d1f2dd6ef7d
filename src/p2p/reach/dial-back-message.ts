import type { Multiaddr } from '@multiformats/multiaddr'

/** The messages of AutoNAT v2 for the asking side (libp2p's specification; protobuf). */
export const DIAL_BACK_BYTES_MAX = 8192

/** The peer's answer: it first wants a number of bytes, or it reports the result of its dial. */
type DialAnswer =
  | { type: 'data'; bytes: number }
  /** `tried`: the peer has dialed, successfully or not. */
  | { type: 'result'; tried: boolean }

const STATUS_OK = 200n
const DIAL_FAILED = 100n

/** message 1: address, field 1, bytes · nonce, field 2, eight bytes */
export function encodeDialRequest({ bytes }: Multiaddr, nonce: bigint): Uint8Array {
  const eight = Buffer.alloc(8)
  eight.writeBigUInt64LE(nonce)
  return field(1, Buffer.concat([field(1, bytes), Uint8Array.of((2 << 3) | 1), eight]))
}

/** message 4: padding bytes, which show that the dial is worth their cost */
export function encodeDialData(bytes: number): Uint8Array {
  return field(4, field(1, new Uint8Array(bytes)))
}

/** @throws Error if the bytes are not such a message */
export function decodeDialAnswer(bytes: Uint8Array): DialAnswer {
  for (const { at, value } of fieldsOf(bytes)) {
    if (typeof value === 'bigint') continue
    const numbers = new Map(fieldsOf(value).map((one) => [one.at, one.value]))
    if (at === 3) return { type: 'data', bytes: Number(numbers.get(2) ?? 0n) }
    if (at === 2) {
      const dial = numbers.get(3)
      return { type: 'result', tried: numbers.get(1) === STATUS_OK && (dial === STATUS_OK || dial === DIAL_FAILED) }
    }
  }
  throw new Error('the answer has no known field')
}

/** The nonce in a dial-back. @throws Error if there is none */
export function decodeNonce(bytes: Uint8Array): bigint {
  const nonce = fieldsOf(bytes).find(({ at }) => at === 1)?.value
  if (typeof nonce !== 'bigint') throw new Error('the dial-back has no nonce')
  return nonce
}

/** The answer to a dial-back: status 0. */
export const DIAL_BACK_TAKEN = Uint8Array.of(0x08, 0)

type Field = { at: number; value: bigint | Uint8Array }

function fieldsOf(bytes: Uint8Array): Field[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const fields: Field[] = []
  let at = 0
  const number = (): bigint => {
    let value = 0n
    for (let shift = 0n; shift < 64n; shift += 7n) {
      const byte = buffer[at++]
      if (byte === undefined) throw new Error('the message ends early')
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    throw new Error('a number of the message is too long')
  }
  while (at < buffer.length) {
    const tag = Number(number())
    const kind = tag & 7
    if (kind === 0) fields.push({ at: tag >> 3, value: number() })
    else if (kind === 1) {
      fields.push({ at: tag >> 3, value: buffer.readBigUInt64LE(at) })
      at += 8
    } else if (kind === 2) {
      const length = Number(number())
      if (at + length > buffer.length) throw new Error('the message ends early')
      fields.push({ at: tag >> 3, value: buffer.subarray(at, at + length) })
      at += length
    } else throw new Error('the message has a field of a kind it must not have')
  }
  return fields
}

function field(at: number, value: Uint8Array): Uint8Array {
  return Buffer.concat([Uint8Array.from([(at << 3) | 2, ...varint(value.length)]), value])
}

/** A number as protobuf writes it. */
export function varint(value: number): number[] {
  const bytes = []
  for (; value >= 0x80; value >>>= 7) bytes.push((value & 0x7f) | 0x80)
  return [...bytes, value]
}
