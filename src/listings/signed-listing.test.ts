import { beforeAll, expect, test } from 'vitest'
import { forgeRecord, listingRecord, ownListing, signJson, signRecord } from '../../test/support/listings.ts'
import { openEnvelope } from '../../test/support/open-envelope.ts'
import { agentId } from '../agents/agent-id.ts'
import { sealEnvelope } from '../p2p/envelope.ts'
import { createIdentity, type Identity } from '../p2p/identity.ts'
import { assets } from '../payments/assets.ts'
import { LISTING_BYTES_MAX, LISTING_SKEW_MS, LISTING_TTL_MS, type ListingRecord } from '../schema/listing.ts'
import { isHostile, openListing, sealListing } from './signed-listing.ts'

const NOW = Date.UTC(2026, 0, 1)
let seller: Identity
let stranger: Identity

beforeAll(async () => {
  seller = await createIdentity()
  stranger = await createIdentity()
})

const open = (envelope: Uint8Array, now = NOW) => openListing(envelope, { now })
const sign = (changes: Partial<ListingRecord> = {}, name = 'echo', version = NOW) =>
  signRecord(listingRecord(seller.peerId, name, version, changes), seller)

test('opens a listing that its seller has signed', async () => {
  const record = listingRecord(seller.peerId, 'echo', NOW, { price_atomic: 1500n, model: 'builtin/echo' })
  const { envelope, entry } = await sealListing(record, seller)
  expect(await open(envelope)).toEqual({ ok: true, entry })
  expect(entry.record).toEqual(record)
  expect(entry.bytes).toBe(envelope.length)
})

test('the hash is of the signed contents: other contents, another hash', async () => {
  const [one, same, other] = await Promise.all(
    [sign(), sign(), sign({ description: 'other' })].map(async (e) => open(await e)),
  )
  if (!one?.ok || !same?.ok || !other?.ok) throw new Error('refused')
  expect(same.entry.hash).toBe(one.entry.hash)
  expect(other.entry.hash).not.toBe(one.entry.hash)
})

const refusals: [string, string, () => Promise<Uint8Array>][] = [
  ['T3 an oversized envelope', 'TOO_LARGE', async () => new Uint8Array(LISTING_BYTES_MAX + 1)],
  ['T8 bytes that are no envelope', 'MALFORMED', async () => new Uint8Array([1, 2, 3])],
  ['T8 an empty envelope', 'MALFORMED', async () => new Uint8Array()],
  ['T8 a payload that is no JSON', 'MALFORMED', async () => signText('{"v":1,')],
  ['T8 a payload nested without end', 'MALFORMED', async () => signText('['.repeat(8000))],
  ['T8 text that is no UTF-8', 'MALFORMED', async () => signBytes(await broken('no text: x', 0xff))],
  ['T8 a byte order mark', 'MALFORMED', async () => signText(`\ufeff${JSON.stringify(await plain())}`)],
  ['T8 null', 'MALFORMED', async () => signJson(null, seller)],
  ['T8 a missing field', 'MALFORMED', async () => signJson({ v: 1, id: 'aaaaaaaaaaaaaaaa' }, seller)],
  ['another version of the record', 'MALFORMED', () => sign({ v: 2 as 1 })],
  ['T3 a forged signature', 'FORGED', () => forgeRecord(listingRecord(seller.peerId, 'echo', NOW), seller)],
  [
    "D8 a listing for another seller than its signer, under the victim's id",
    'NOT_OWNER',
    () => signRecord(listingRecord(seller.peerId, 'echo', NOW), stranger),
  ],
  [
    "T3 squatting: a stranger's own listing under another's id",
    'INCONSISTENT',
    () => signRecord(listingRecord(stranger.peerId, 'echo', NOW, { id: agentId(seller.peerId, 'echo') }), stranger),
  ],
  ['an id of another name', 'INCONSISTENT', () => sign({ id: agentId(seller.peerId, 'other') })],
  ['D7 a price over the limit', 'INCONSISTENT', () => sign({ price_atomic: 1_000_000_000_001n })],
  [
    'T14 an asset that is not USDC',
    'INCONSISTENT',
    () => sign({ asset: '0x1111111111111111111111111111111111111111' }),
  ],
  ["T14 another network's USDC", 'INCONSISTENT', () => sign({ asset: assets['eip155:8453'].address })],
  [
    'D6 a paid agent that offers itself unpaid',
    'INCONSISTENT',
    () => sign({ price_atomic: 1n, protocols: ownListing('x', 'y').protocols }),
  ],
  ['D6 a free agent without the free protocol', 'INCONSISTENT', () => sign({ protocols: ['/x402/libp2p/1.0.0'] })],
  ['D6 an agent without x402', 'INCONSISTENT', () => sign({ protocols: ['/node/marketplace/1.0.0'] })],
  ["another peer's address", 'INCONSISTENT', () => sign({ addrs: [`/ip4/10.0.0.1/tcp/80/p2p/${stranger.peerId}`] })],
  ['an address of nobody', 'INCONSISTENT', () => sign({ addrs: ['/ip4/10.0.0.1/tcp/80'] })],
  ['T3 a life over 24 hours', 'INCONSISTENT', () => sign({ expires_at: NOW + LISTING_TTL_MS + LISTING_SKEW_MS + 1 })],
  ['a life that ends before it begins', 'INCONSISTENT', () => sign({ expires_at: NOW })],
  ['an update later than its version', 'INCONSISTENT', () => sign({ updated_at: NOW + 1 })],
  ['T3 a version from the future', 'FUTURE', () => sign({}, 'echo', NOW + LISTING_SKEW_MS + 1)],
  [
    'T3 a version from the future with a present date',
    'FUTURE',
    () => sign({ updated_at: NOW, expires_at: NOW + 1000 }, 'echo', NOW + 10 * LISTING_TTL_MS),
  ],
  ['T3 a replay after its time', 'EXPIRED', () => sign({}, 'echo', NOW - LISTING_TTL_MS - LISTING_SKEW_MS)],
]

const signBytes = (bytes: Uint8Array) => sealEnvelope(bytes, seller)
const signText = (text: string) => signBytes(Buffer.from(text))
/** What the seller signs of a good listing, as JSON. */
async function plain(description = 'text') {
  const { payload } = await openEnvelope(await sign({ description }))
  return JSON.parse(Buffer.from(payload).toString()) as object
}
/** The same with a byte in place of the last character of its description. */
async function broken(description: string, byte: number): Promise<Uint8Array> {
  const bytes = Buffer.from(JSON.stringify(await plain(description)))
  bytes[bytes.indexOf(description) + description.length - 1] = byte
  return bytes
}

test.each(refusals)('refuses %s: %s', async (_, error, envelope) => {
  expect(await open(await envelope())).toMatchObject({ ok: false, error })
})

test('takes a version at the edges of its time', async () => {
  for (const version of [NOW + LISTING_SKEW_MS, NOW - LISTING_TTL_MS]) {
    expect(await open(await sign({}, 'echo', version))).toMatchObject({ ok: true })
  }
})

test('takes the address of a relay that leads to the seller, and protocols it does not know', async () => {
  const addrs = [`/dns4/relay.example/tcp/4001/p2p/${stranger.peerId}/p2p-circuit/p2p/${seller.peerId}`]
  const protocols = [...ownListing('x', 'y').protocols, '/later/2.0.0']
  expect(await open(await sign({ addrs, protocols }))).toMatchObject({ ok: true })
})

test('drops fields it does not know and prototype keys (T8)', async () => {
  const known = { ...listingRecord(seller.peerId, 'echo', NOW), price_atomic: '0' }
  const opened = await open(
    await signText(`${JSON.stringify(known).slice(0, -1)},"__proto__":{"local":true},"extra":1}`),
  )
  if (!opened.ok) throw new Error(opened.reason)
  expect(Object.keys(opened.entry.record)).not.toContain('extra')
  expect((opened.entry.record as { local?: boolean }).local).toBeUndefined()
})

test('asks whether a listing is wanted only once all cheap checks have passed, and before the signature', async () => {
  const asked: string[] = []
  const wanted = (answer: boolean) => (entry: { record: ListingRecord }) => {
    asked.push(entry.record.name)
    return answer
  }
  const forged = await forgeRecord(listingRecord(seller.peerId, 'forged', NOW), seller)
  expect(await openListing(forged, { now: NOW, wanted: wanted(false) })).toMatchObject({ error: 'UNWANTED' })
  expect(await openListing(forged, { now: NOW, wanted: wanted(true) })).toMatchObject({ error: 'FORGED' })
  const future = await sign({}, 'future', NOW * 2)
  expect(await openListing(future, { now: NOW, wanted: wanted(true) })).toMatchObject({ error: 'FUTURE' })
  expect(asked).toEqual(['forged', 'forged'])
})

test('a peer is blamed only for a listing that is false for every node', () => {
  expect(
    ['TOO_LARGE', 'MALFORMED', 'NOT_OWNER', 'INCONSISTENT', 'FORGED'].map((code) => isHostile(code as 'FORGED')),
  ).toEqual(Array(5).fill(true))
  expect(['FUTURE', 'EXPIRED', 'UNWANTED'].map((code) => isHostile(code as 'FUTURE'))).toEqual(Array(3).fill(false))
})

test('never signs a listing that others would refuse, and says why', async () => {
  const paidUnpaid = listingRecord(seller.peerId, 'echo', NOW, {
    price_atomic: 1n,
    protocols: ['/node/marketplace/1.0.0'],
  })
  await expect(sealListing(paidUnpaid, seller)).rejects.toMatchObject({
    code: 'LISTING_INVALID',
    message: 'agent echo cannot be listed: protocols lack /x402/libp2p/1.0.0',
  })
  const long = listingRecord(seller.peerId, 'echo', NOW, { description: '\u{1F980}'.repeat(2000), addrs: [] })
  expect(await open((await sealListing(long, seller)).envelope)).toMatchObject({ ok: true })
  const loud = listingRecord(seller.peerId, 'echo', NOW, { tags: Array(17).fill('tag') })
  await expect(sealListing(loud, seller)).rejects.toThrow(/cannot be listed: tags: /)
  const escaped = listingRecord(seller.peerId, 'echo', NOW, { description: '\u0001'.repeat(4000) })
  await expect(sealListing(escaped, seller)).rejects.toThrow(/cannot be listed: .*shorten the description/)
})
