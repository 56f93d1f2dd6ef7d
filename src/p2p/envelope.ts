import { publicKeyFromRaw } from '@libp2p/crypto/keys'
import { peerIdFromPublicKey } from '@libp2p/peer-id'
import { RecordEnvelope } from '@libp2p/peer-record'
import { BoundedMap } from '../lib/bounded-map.ts'
import { CodedError } from '../lib/errors.ts'
import { LISTING_BYTES_MAX } from '../schema/listing.ts'
import type { Identity } from './identity.ts'
import { KEY_BYTES, SIGNATURE_BYTES, type SignatureCheck } from './signature.ts'

/** Domain of the signature. It prevents a listing's signature from being valid for anything else. */
const DOMAIN = 'stoa-listing'
const PAYLOAD_TYPE = new TextEncoder().encode('/stoa/listing')

/**
 * Signs a listing's payload into a libp2p envelope.
 *
 * @throws CodedError `ENVELOPE_INVALID` if the result is longer than peers accept
 */
export async function sealEnvelope(payload: Uint8Array, identity: Identity): Promise<Uint8Array> {
  const record = { domain: DOMAIN, codec: PAYLOAD_TYPE, marshal: () => payload, equals: () => false }
  const bytes = (await RecordEnvelope.seal(record, identity.privateKey)).marshal()
  if (bytes.byteLength > LISTING_BYTES_MAX) {
    throw invalid(
      `it has ${bytes.byteLength} bytes, peers accept ${LISTING_BYTES_MAX}: shorten the description or the tags`,
    )
  }
  return bytes
}

/** The claims of an envelope. Only a genuine signature proves that `peerId` said `payload`. */
type ReadEnvelope = { peerId: string; payload: Uint8Array; check: () => SignatureCheck }

/**
 * Reads an envelope without checking the signature. The signature is nearly all of the cost, so cheap checks can come
 * first.
 *
 * ```bnf
 * envelope  ::= 0x0a key 0x12 payloadType 0x1a payload 0x2a signature     each after its length, as a varint
 * key       ::= 08 01 12 20 (32 bytes)                                     an Ed25519 key as libp2p writes it
 * ```
 * This is the protobuf of a libp2p record envelope as libp2p writes it. Exactly one encoding is accepted for a payload
 * of a peer. Otherwise a peer that passes an envelope on could make a second envelope that says the same but has
 * another hash.
 *
 * @throws CodedError `ENVELOPE_INVALID`
 */
export function readEnvelope(bytes: Uint8Array): ReadEnvelope {
  if (bytes.byteLength > LISTING_BYTES_MAX) throw invalid(`it has more than ${LISTING_BYTES_MAX} bytes`)
  if (!startsWith(bytes, KEY_HEAD)) throw invalid('its key is not an Ed25519 key')
  const key = bytes.subarray(KEY_HEAD.length, KEY_HEAD.length + KEY_BYTES)
  if (!startsWith(bytes, TYPE_FIELD, KEY_HEAD.length + KEY_BYTES)) throw invalid('it is not of a listing')
  const { payload, end } = readPayload(bytes, KEY_HEAD.length + KEY_BYTES + TYPE_FIELD.length)
  if (!startsWith(bytes, SIGNATURE_HEAD, end) || bytes.length !== end + SIGNATURE_HEAD.length + SIGNATURE_BYTES) {
    throw invalid('it does not end with a signature, and only that')
  }
  const signature = bytes.subarray(-SIGNATURE_BYTES)
  return { peerId: peerIdOf(key), payload, check: () => ({ key, signed: signedOf(payload), signature }) }
}

const KEY_HEAD = Uint8Array.of(0x0a, 0x24, 0x08, 0x01, 0x12, KEY_BYTES)
const TYPE_FIELD = Uint8Array.of(0x12, PAYLOAD_TYPE.length, ...PAYLOAD_TYPE)
const SIGNATURE_HEAD = Uint8Array.of(0x2a, SIGNATURE_BYTES)
/** The signed bytes: domain, payload type and payload, each after its length. */
const SIGNED_HEAD = Buffer.concat([
  Uint8Array.of(DOMAIN.length),
  Buffer.from(DOMAIN),
  Uint8Array.of(PAYLOAD_TYPE.length, ...PAYLOAD_TYPE),
])

function readPayload(bytes: Uint8Array, at: number): { payload: Uint8Array; end: number } {
  const [tag, low, high] = [bytes[at], bytes[at + 1], bytes[at + 2]]
  if (tag !== 0x1a || low === undefined || high === undefined) throw invalid('it has no payload')
  // A listing has between 1 and 16384 bytes, so its length is a varint of one or two bytes.
  const size = low < 128 ? 1 : 2
  const length = low < 128 ? low : low - 128 + 128 * high
  const isShortest = high < 128 && (size === 1 || high > 0)
  if (size === 2 && !isShortest) throw invalid('it is not in its canonical form')
  const start = at + 1 + size
  if (length === 0) throw invalid('its payload is empty')
  return { payload: bytes.subarray(start, start + length), end: start + length }
}

function signedOf(payload: Uint8Array): Uint8Array {
  const size = payload.length < 128 ? [payload.length] : [(payload.length % 128) + 128, payload.length >> 7]
  return Buffer.concat([SIGNED_HEAD, Uint8Array.from(size), payload])
}

/** Peer ids of sellers read recently. Encoding a peer id costs as much as everything else here. */
const PEER_IDS_MAX = 4096
const peerIds = new BoundedMap<string, string>(PEER_IDS_MAX)

function peerIdOf(key: Uint8Array): string {
  const name = Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1')
  const known = peerIds.get(name)
  if (known !== undefined) return known
  const peerId = peerIdFromPublicKey(publicKeyFromRaw(key)).toString()
  peerIds.set(name, peerId)
  return peerId
}

function startsWith(bytes: Uint8Array, head: Uint8Array, at = 0): boolean {
  return head.every((byte, index) => bytes[at + index] === byte)
}

function invalid(reason: string, cause?: unknown): CodedError<'ENVELOPE_INVALID'> {
  return new CodedError('ENVELOPE_INVALID', `not a signed listing: ${reason}`, { cause })
}
