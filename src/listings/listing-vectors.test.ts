import { generateKeyPairFromSeed } from '@libp2p/crypto/keys'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { expect, test } from 'vitest'
import { readVectors } from '../../test/support/read-vectors.ts'
import { agentId } from '../agents/agent-id.ts'
import { didOfPeer } from '../p2p/did.ts'
import { sealEnvelope } from '../p2p/envelope.ts'
import { encodeBatch } from '../protocols/sync/batch.ts'
import { openListing } from './signed-listing.ts'

type Vectors = {
  vectors: {
    about: string
    seed_byte: number
    seller_id: string
    name: string
    id: string
    now: number
    payload: string
    sha256: string
    envelope: string
  }[]
  batch: string
}
const { vectors, batch } = readVectors<Vectors>('listings')

test.each(vectors)('$about: the same bytes come of it again, and they are a listing', async (vector) => {
  const privateKey = await generateKeyPairFromSeed('Ed25519', new Uint8Array(32).fill(vector.seed_byte))
  const peerId = peerIdFromPrivateKey(privateKey).toString()
  expect([peerId, agentId(peerId, vector.name)]).toEqual([vector.seller_id, vector.id])
  const envelope = await sealEnvelope(Buffer.from(vector.payload), { privateKey, peerId, did: didOfPeer(peerId) })
  expect(Buffer.from(envelope).toString('hex')).toBe(vector.envelope)
  const opened = await openListing(envelope, { now: vector.now })
  expect(opened).toMatchObject({ ok: true, entry: { hash: vector.sha256, record: { id: vector.id } } })
})

test('a batch of them is what gossip and sync carry', () => {
  const envelopes = vectors.map(({ envelope }) => Buffer.from(envelope, 'hex'))
  expect(Buffer.from(encodeBatch(envelopes)).toString('hex')).toBe(batch)
})
