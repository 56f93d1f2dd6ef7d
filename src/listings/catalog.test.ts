import { beforeAll, expect, test } from 'vitest'
import * as z from 'zod'
import { listingRecord, replicaOf } from '../../test/support/listings.ts'
import { payTo } from '../../test/support/payments.ts'
import { createIdentity, type Identity } from '../p2p/identity.ts'
import { Listing, type ListingRecord } from '../schema/listing.ts'
import { createCatalog } from './catalog.ts'

const NOW = Date.UTC(2026, 0, 1)
let me: Identity
let other: Identity

beforeAll(async () => {
  me = await createIdentity()
  other = await createIdentity()
})

function catalogOf(...records: ListingRecord[]) {
  return createCatalog({ replica: replicaOf(() => records, me.peerId), sellerId: me.peerId, network: 'eip155:84532' })
}

test('D6 a listing has the fields of the API and passes its schema', () => {
  const record = listingRecord(other.peerId, 'echo', NOW, { price_atomic: 1500n, model: 'builtin/echo' })
  const listing = catalogOf(record).resolve(record.id)!
  const body = z.encode(Listing, listing)
  expect(body).toEqual({
    id: record.id,
    name: 'echo',
    description: 'echo does one thing well',
    price: 0.0015,
    price_atomic: '1500',
    model: 'builtin/echo',
    tags: ['test'],
    protocols: ['/x402/libp2p/1.0.0'],
    network: 'eip155:84532',
    asset: record.asset,
    pay_to: record.pay_to,
    seller_id: other.peerId,
    seller_did: other.did,
    addrs: record.addrs,
    version: NOW,
    updated_at: '2026-01-01T00:00:00.000Z',
    expires_at: '2026-01-02T00:00:00.000Z',
    local: false,
    buyable: true,
  })
  expect(z.decode(Listing, body)).toEqual(listing)
})

test.each([
  [1_000n, 1_000n, true],
  [999n, 1_000n, false],
])('T2: at a price of %i, prices by use up to %i are taken: %s', (price_atomic, max, isTaken) => {
  const channel = { receiver_authorizer: payTo, withdraw_delay: 900, min_deposit: 1n }
  const pricing = { per_call: 1n, max }
  const record = listingRecord(other.peerId, 'echo', NOW, { price_atomic, pricing, channel })
  const { price, ...listing } = catalogOf(record).resolve(record.id)!
  expect([price, listing.pricing, listing.channel]).toEqual([
    price_atomic,
    isTaken ? pricing : undefined,
    isTaken ? channel : undefined,
  ])
})

test('what a seller wants of payment channels is shown with its listing', () => {
  const channel = {
    receiver_authorizer: `0x${'1'.repeat(40)}` as const,
    withdraw_delay: 86_400,
    min_deposit: 2n ** 100n,
  }
  const listing = catalogOf(listingRecord(other.peerId, 'echo', NOW, { channel })).all()[0]!
  const body = z.encode(Listing, listing)
  expect(body.channel).toEqual({ ...channel, min_deposit: (2n ** 100n).toString() })
  expect(z.decode(Listing, JSON.parse(JSON.stringify(body)))).toEqual(listing)
})

test('T18 every price of a listing is exact', () => {
  for (const price_atomic of [1n, 249n, 15_700n, 1_001_000n, 999_999_999_999n, 1_000_000_000_000n]) {
    const record = listingRecord(other.peerId, 'echo', NOW, { price_atomic })
    const body = z.encode(Listing, catalogOf(record).all()[0]!)
    expect(z.decode(Listing, JSON.parse(JSON.stringify(body))).price).toBe(price_atomic)
  }
})

test('the catalog separates own and discovered listings', () => {
  const catalog = catalogOf(listingRecord(me.peerId, 'mine', NOW), listingRecord(other.peerId, 'theirs', NOW))
  expect(catalog.all().map(({ name, local }) => [name, local])).toEqual([
    ['mine', true],
    ['theirs', false],
  ])
  expect(catalog.local().map(({ name }) => name)).toEqual(['mine'])
  expect(catalog.discovered().map(({ name }) => name)).toEqual(['theirs'])
})

test('an id that is not on the market resolves to nothing', () => {
  expect(catalogOf().resolve('aaaaaaaaaaaaaaaa')).toBeUndefined()
})
