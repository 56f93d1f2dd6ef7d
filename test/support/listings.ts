import { agentId } from '../../src/agents/agent-id.ts'
import type { OwnListing } from '../../src/listings/replica.ts'
import { sealEnvelope } from '../../src/p2p/envelope.ts'
import type { Identity } from '../../src/p2p/identity.ts'
import { assets } from '../../src/payments/assets.ts'
import { LISTING_TTL_MS, type Listing, type ListingRecord } from '../../src/schema/listing.ts'

const protocolsOf = (price: bigint) =>
  price === 0n ? ['/x402/libp2p/1.0.0', '/node/marketplace/1.0.0'] : ['/x402/libp2p/1.0.0']

/** A seller's own listing of an agent. The default price is zero. */
export function ownListing(sellerId: string, name: string, changes: Partial<OwnListing> = {}): OwnListing {
  const price = changes.price_atomic ?? 0n
  return {
    id: agentId(sellerId, name),
    name,
    description: `${name} does one thing well`,
    price_atomic: price,
    tags: ['test'],
    protocols: protocolsOf(price),
    network: 'eip155:84532',
    asset: assets['eip155:84532'].address,
    pay_to: '0x2222222222222222222222222222222222222222',
    ...changes,
  }
}

export function listingRecord(
  sellerId: string,
  name: string,
  version: number,
  changes: Partial<ListingRecord> = {},
): ListingRecord {
  return {
    ...ownListing(sellerId, name, changes),
    v: 1,
    seller_id: sellerId,
    state: 'active',
    version,
    updated_at: version,
    expires_at: version + LISTING_TTL_MS,
    addrs: [`/ip4/192.0.2.1/tcp/4001/p2p/${sellerId}`],
    ...changes,
  }
}

/** Signs any record, as an attacker can with its own key. */
export function signRecord(record: ListingRecord, identity: Identity): Promise<Uint8Array> {
  return signJson({ ...record, price_atomic: record.price_atomic.toString() }, identity)
}

export function signJson(payload: unknown, identity: Identity): Promise<Uint8Array> {
  return sealEnvelope(Buffer.from(JSON.stringify(payload)), identity)
}

/** An envelope with the signature of another listing. */
export async function forgeRecord(record: ListingRecord, victim: Identity): Promise<Uint8Array> {
  const signed = Buffer.from(await signRecord(record, victim))
  signed[signed.length - 1]! ^= 1
  return signed
}

/** The part of a replica that a catalog needs, over records that are all on the market. */
export function replicaOf(records: () => readonly ListingRecord[], sellerId: string) {
  return {
    all: () => [...records()],
    own: () => records().filter(({ seller_id }) => seller_id === sellerId),
    count: () => records().length,
    get: (id: string) => records().find((record) => record.id === id),
  }
}

/** A listing as search shows it. */
export function listedAgent(name: string, price: bigint, more: Partial<Listing> = {}): Listing {
  const {
    price_atomic,
    state: _state,
    v: _v,
    updated_at: _u,
    expires_at: _e,
    ...record
  } = listingRecord('12D3KooWSeller', name, 1)
  return {
    ...record,
    price,
    price_atomic: `${price_atomic}`,
    seller_did: 'did:peer:seller',
    updated_at: '2026-01-01T00:00:00.000Z',
    expires_at: '2026-01-02T00:00:00.000Z',
    local: false,
    buyable: true,
    online: true,
    model: 'openai/gpt-5-mini',
    ...more,
  }
}
