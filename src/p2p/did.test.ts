import { readFileSync } from 'node:fs'
import { generateKeyPairFromSeed, publicKeyFromRaw } from '@libp2p/crypto/keys'
import { peerIdFromPublicKey } from '@libp2p/peer-id'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { didOfPeer, peerNamed, peerOfDid } from './did.ts'

type Vector = { seed_byte: number; public_key: string; peer_id: string; did: string }
const file = new URL('../../test/vectors/did.json', import.meta.url)
const { vectors } = JSON.parse(readFileSync(file, 'utf8')) as { vectors: Vector[] }

test.each(vectors)('D25: the key of seed $seed_byte has the peer id and the DID of the vectors', async (vector) => {
  const key = await generateKeyPairFromSeed('Ed25519', new Uint8Array(32).fill(vector.seed_byte))
  expect(Buffer.from(key.publicKey.raw).toString('hex')).toBe(vector.public_key)
  expect(peerIdFromPublicKey(key.publicKey).toString()).toBe(vector.peer_id)
  expect(didOfPeer(vector.peer_id)).toBe(vector.did)
  expect(peerOfDid(vector.did)).toBe(vector.peer_id)
})

test('D25: every Ed25519 key has one DID, and the DID gives the peer id back', () => {
  const key = fc.uint8Array({ minLength: 32, maxLength: 32 })
  fc.assert(
    fc.property(key, (raw) => {
      const peerId = peerIdFromPublicKey(publicKeyFromRaw(raw)).toString()
      const did = didOfPeer(peerId)
      expect(did).toMatch(/^did:peer:0z6Mk/)
      expect(peerOfDid(did)).toBe(peerId)
    }),
  )
})

test('a name that is read again is that of its own peer, whatever was read in between', () => {
  const [one, other] = vectors
  const names = [one!.did, one!.did, other!.did, 'did:peer:0', `${other!.did}1`, other!.did, one!.did]
  const [first, second] = [one!.peer_id, other!.peer_id]
  expect(names.map(peerNamed)).toEqual([first, first, second, undefined, undefined, second, first])
})

test('T8: any other text is refused with a code, whatever it is', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.string({ unit: 'binary' })), (text) => {
      expect(() => didOfPeer(text)).toThrow(expect.objectContaining({ code: 'BAD_PEER_ID' }))
      expect(() => peerOfDid(text)).toThrow(expect.objectContaining({ code: 'BAD_DID' }))
    }),
  )
})

test.each([
  ['an RSA peer id', 'QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N'],
  ['a secp256k1 peer id', '16Uiu2HAm3Lkn9NRieuh3UUTWMNthSDumQL9ctTBKxQqdCC79WUSq'],
  ['one letter too many', `${vectors[0]!.peer_id}1`],
  ['one letter too few', vectors[0]!.peer_id.slice(0, -1)],
  ['a letter that base58 does not have', vectors[0]!.peer_id.replace(/.$/, '0')],
  ['a blank behind it', `${vectors[0]!.peer_id} `],
])('didOfPeer refuses %s', (_what, text) => {
  expect(() => didOfPeer(text)).toThrow(/12D3KooW/)
})

test.each([
  ['another method', 'did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp'],
  ['did:peer method 2', 'did:peer:2.Ez6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc'],
  ['an X25519 key', 'did:peer:0z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc'],
  ['a fragment', `${vectors[0]!.did}#key-1`],
  ['a bare peer id', vectors[0]!.peer_id],
])('peerOfDid refuses %s', (_what, text) => {
  expect(() => peerOfDid(text)).toThrow(expect.objectContaining({ code: 'BAD_DID' }))
})
