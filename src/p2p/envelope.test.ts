import { generateKeyPair } from '@libp2p/crypto/keys'
import { RecordEnvelope } from '@libp2p/peer-record'
import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { openEnvelope } from '../../test/support/open-envelope.ts'
import { LISTING_BYTES_MAX } from '../schema/listing.ts'
import { sealEnvelope } from './envelope.ts'
import { createIdentity, type Identity } from './identity.ts'

const payload = new TextEncoder().encode('{"name":"summarizer"}')
const invalid = expect.objectContaining({ code: 'ENVELOPE_INVALID' })
const record = {
  domain: 'stoa-listing',
  codec: new TextEncoder().encode('/stoa/listing'),
  marshal: () => payload,
  equals: () => false,
}
let owner: Identity

beforeAll(async () => {
  owner = await createIdentity()
})

test('D8: what an owner seals opens to the same payload and the owner’s peer id', async () => {
  const opened = await openEnvelope(await sealEnvelope(payload, owner))
  expect(opened.peerId).toBe(owner.peerId)
  expect(Buffer.from(opened.payload)).toEqual(Buffer.from(payload))
})

test('D8, T3: a bit changed anywhere makes the envelope invalid', async () => {
  const bytes = await sealEnvelope(payload, owner)
  const place = fc.nat({ max: bytes.byteLength * 8 - 1 })
  await fc.assert(
    fc.asyncProperty(place, async (bit) => {
      const changed = bytes.slice()
      changed[bit >> 3]! ^= 1 << (bit & 7)
      await expect(openEnvelope(changed)).rejects.toThrow(invalid)
    }),
    { numRuns: 300 },
  )
})

test('T8: arbitrary bytes are refused with the code, never by a crash', async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (bytes) => {
      await expect(openEnvelope(bytes)).rejects.toThrow(invalid)
    }),
  )
})

test('D8: a signature for another domain does not count', async () => {
  const other = await RecordEnvelope.seal({ ...record, domain: 'libp2p-peer-record' }, owner.privateKey)
  await expect(openEnvelope(other.marshal())).rejects.toThrow(invalid)
})

test('D8: a signed payload of another type does not count', async () => {
  const other = await RecordEnvelope.seal(
    { ...record, codec: new TextEncoder().encode('/stoa/other') },
    owner.privateKey,
  )
  await expect(openEnvelope(other.marshal())).rejects.toThrow(invalid)
})

test('D8: only Ed25519 keys sign listings', async () => {
  const other = await RecordEnvelope.seal(record, await generateKeyPair('secp256k1'))
  await expect(openEnvelope(other.marshal())).rejects.toThrow(invalid)
})

test('T3: nobody can make a second envelope of the same content out of one', async () => {
  const bytes = await sealEnvelope(payload, owner)
  const unknownField = Uint8Array.of(...bytes, 0x78, 0x01)
  const fieldTwice = Uint8Array.of(...bytes, ...lastField(bytes))
  // The length of the payload, in two bytes where one is enough.
  const at = Buffer.from(bytes).indexOf(payload) - 1
  expect(bytes[at]).toBe(payload.length)
  const longLength = Uint8Array.of(...bytes.subarray(0, at), payload.length + 128, 0, ...bytes.subarray(at + 1))
  for (const respelled of [unknownField, fieldTwice, longLength]) {
    await expect(openEnvelope(respelled)).rejects.toThrow(invalid)
  }
})

test('T3: an envelope longer than a listing may be is neither made nor opened', async () => {
  await expect(sealEnvelope(new Uint8Array(LISTING_BYTES_MAX), owner)).rejects.toThrow(/shorten/)
  const long = await RecordEnvelope.seal(
    { ...record, marshal: () => new Uint8Array(LISTING_BYTES_MAX) },
    owner.privateKey,
  )
  await expect(openEnvelope(long.marshal())).rejects.toThrow(invalid)
})

/** The signature with its protobuf head: tag, length, 64 bytes. */
function lastField(bytes: Uint8Array): Uint8Array {
  return bytes.subarray(-66)
}

test('D8: what libp2p itself seals is read the same, whatever the length of the payload', async () => {
  for (const length of [1, 127, 128, 129, 4000, 16_000]) {
    const bytes = (
      await RecordEnvelope.seal({ ...record, marshal: () => new Uint8Array(length).fill(7) }, owner.privateKey)
    ).marshal()
    expect((await openEnvelope(bytes)).payload).toHaveLength(length)
  }
})
