import { createPrivateKey, hash, type KeyObject, sign } from 'node:crypto'
import { publicKeyFromRaw } from '@libp2p/crypto/keys'
import { peerIdFromPublicKey, peerIdFromString } from '@libp2p/peer-id'
import * as z from 'zod'
import { agentId } from '../../src/agents/agent-id.ts'
import { rowOf } from '../../src/listings/rows.ts'
import { ListingRecord } from '../../src/schema/listing.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createListingStore } from '../../src/store/listings.ts'
import { createMarket } from '../search/listings.ts'

/** The DER prefix of an Ed25519 seed (RFC 8410). */
const SEED_HEAD = Buffer.from('302e020100300506032b657004220420', 'hex')
const DOMAIN = 'stoa-listing'
const TYPE = '/stoa/listing'

/** Writes a market of this many signed listings to a database, as a replica leaves it, but without the search index. */
export async function writeMarket(path: string, count: number, now: number): Promise<{ bytes: number }> {
  const database = openDatabase({ path })
  const store = createListingStore(database)
  const keys = new Map<string, Seller>()
  let bytes = 0
  for (const draft of createMarket(count, now).records) {
    const seller = keys.get(draft.seller_id) ?? sellerOf(draft.seller_id)
    keys.set(draft.seller_id, seller)
    const addrs = draft.addrs.map((address) => address.replace(draft.seller_id, seller.peerId))
    const id = agentId(seller.peerId, draft.name)
    const record: ListingRecord = { ...draft, id, seller_id: seller.peerId, addrs }
    const payload = Buffer.from(JSON.stringify(z.encode(ListingRecord, record)))
    const envelope = sealed(payload, seller)
    bytes += envelope.length
    const entry = { record, hash: hash('sha256', payload), bytes: envelope.length }
    const { search: _, ...row } = rowOf(entry, envelope, { seenAt: now })
    store.putLater(row)
  }
  await store.flush()
  await database.close()
  return { bytes }
}

type Seller = { peerId: string; publicKey: Uint8Array; privateKey: KeyObject }

/** The seller of a name. The same name gives the same seller. */
function sellerOf(name: string): Seller {
  const seed = hash('sha256', name, 'buffer')
  const privateKey = createPrivateKey({ key: Buffer.concat([SEED_HEAD, seed]), format: 'der', type: 'pkcs8' })
  const publicKey = Buffer.from(privateKey.export({ format: 'jwk' }).x!, 'base64url')
  return { peerId: peerIdFromPublicKey(publicKeyFromRaw(publicKey)).toString(), publicKey, privateKey }
}

/** An envelope that parses but has an invalid signature, for code that never checks it. */
export function unsigned(record: ListingRecord): { payload: Uint8Array; envelope: Uint8Array } {
  const payload = Buffer.from(JSON.stringify(z.encode(ListingRecord, record)))
  const { publicKey } = peerIdFromString(record.seller_id)
  return { payload, envelope: envelopeOf(payload, publicKey!.raw, new Uint8Array(64)) }
}

function sealed(payload: Uint8Array, { publicKey, privateKey }: Seller): Uint8Array {
  const size = payload.length < 128 ? [payload.length] : [(payload.length % 128) + 128, payload.length >> 7]
  const head = Buffer.concat([Uint8Array.of(DOMAIN.length), Buffer.from(DOMAIN), Uint8Array.of(TYPE.length)])
  const signature = sign(null, Buffer.concat([head, Buffer.from(TYPE), Uint8Array.from(size), payload]), privateKey)
  return envelopeOf(payload, publicKey, signature)
}

/**
 * Encodes an envelope as p2p/envelope.ts reads it. This is a separate encoder, because libp2p takes four times as long.
 */
function envelopeOf(payload: Uint8Array, publicKey: Uint8Array, signature: Uint8Array): Uint8Array {
  const size = payload.length < 128 ? [payload.length] : [(payload.length % 128) + 128, payload.length >> 7]
  return Buffer.concat([
    Uint8Array.of(0x0a, 36, 0x08, 0x01, 0x12, 32),
    publicKey,
    Uint8Array.of(0x12, TYPE.length),
    Buffer.from(TYPE),
    Uint8Array.of(0x1a, ...size),
    payload,
    Uint8Array.of(0x2a, 64),
    signature,
  ])
}
