import { peerIdFromPublicKey } from '@libp2p/peer-id'
import { RecordEnvelope } from '@libp2p/peer-record'
import { CodedError } from '../lib/errors.ts'
import { LISTING_BYTES_MAX } from '../schema/listing.ts'
import type { Identity } from './identity.ts'

/** Keeps a listing's signature from being read as one over anything else. */
const DOMAIN = 'stoa-listing'
const PAYLOAD_TYPE = new TextEncoder().encode('/stoa/listing')

/**
 * Signs a listing's payload into a libp2p envelope.
 *
 * @throws CodedError `ENVELOPE_INVALID` where the result is longer than peers accept
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

/** What an envelope claims: `peerId` has said `payload` only if `verify` answers true. */
export type ReadEnvelope = { peerId: string; payload: Uint8Array; verify: () => Promise<boolean> }

/**
 * What a signed envelope says, and which peer says it. Anybody may have handed it over.
 *
 * @throws CodedError `ENVELOPE_INVALID`
 */
export async function openEnvelope(bytes: Uint8Array): Promise<{ peerId: string; payload: Uint8Array }> {
  const { peerId, payload, verify } = readEnvelope(bytes)
  if (!(await verify())) throw invalid('its signature does not match')
  return { peerId, payload }
}

/**
 * Reads an envelope without checking the signature, which is nearly all of the cost, so that cheap checks come first.
 *
 * One payload of one peer has exactly one accepted spelling: otherwise whoever passes an envelope on could make a
 * second one out of it that says the same and hashes differently.
 *
 * @throws CodedError `ENVELOPE_INVALID`
 */
export function readEnvelope(bytes: Uint8Array): ReadEnvelope {
  if (bytes.byteLength > LISTING_BYTES_MAX) throw invalid(`it has more than ${LISTING_BYTES_MAX} bytes`)
  const envelope = decode(bytes)
  if (envelope.publicKey.type !== 'Ed25519') throw invalid('its key is not an Ed25519 key')
  if (!sameBytes(envelope.payloadType, PAYLOAD_TYPE)) throw invalid('it is not of a listing')
  if (!sameBytes(envelope.marshal(), bytes)) throw invalid('it is not in its canonical form')
  const peerId = peerIdFromPublicKey(envelope.publicKey).toString()
  return { peerId, payload: envelope.payload, verify: () => verifies(envelope) }
}

function decode(bytes: Uint8Array): RecordEnvelope {
  try {
    return RecordEnvelope.createFromProtobuf(bytes)
  } catch (error) {
    throw invalid('it cannot be decoded', error)
  }
}

async function verifies(envelope: RecordEnvelope): Promise<boolean> {
  try {
    return await envelope.validate(DOMAIN)
  } catch (error) {
    throw invalid('its signature cannot be checked', error)
  }
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0
}

function invalid(reason: string, cause?: unknown): CodedError<'ENVELOPE_INVALID'> {
  return new CodedError('ENVELOPE_INVALID', `not a signed listing: ${reason}`, { cause })
}
