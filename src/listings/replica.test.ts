import { afterEach, expect, test } from 'vitest'
import { type FakeHost, FakeNetwork } from '../../test/support/fake-network.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { forgeRecord, listingRecord, ownListing, signRecord } from '../../test/support/listings.ts'
import { namesIn, rowsOf, startReplica, stopReplicas } from '../../test/support/replica-peer.ts'
import { until } from '../../test/support/until.ts'
import { agentId } from '../agents/agent-id.ts'
import { createIdentity } from '../p2p/identity.ts'
import { encodeBatch } from '../protocols/sync/batch.ts'
import { LISTING_SKEW_MS, LISTING_TTL_MS } from '../schema/listing.ts'
import { type Database, openDatabase } from '../store/database.ts'

const HOUR_MS = 60 * 60 * 1000

afterEach(stopReplicas)

test('a listing reaches peers by gossip, also over others', async () => {
  const network = new FakeNetwork()
  const [a, b, c] = [await startReplica(network), await startReplica(network), await startReplica(network)]
  network.connect(a.host, b.host)
  network.connect(b.host, c.host)
  const record = await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  await until(() => c.replica.get(record.id))
  expect(c.replica.get(record.id)).toEqual(record)
  expect(record).toMatchObject({ version: a.clock.now(), addrs: a.host.announced, state: 'active' })
})

test('a late joiner catches up by asking, with gossip or without', async () => {
  const network = new FakeNetwork()
  const a = await startReplica(network)
  for (let n = 0; n < 40; n++) await a.replica.publish(ownListing(a.identity.peerId, `agent ${n}`))
  await a.replica.delist(agentId(a.identity.peerId, 'agent 0'))
  const late = await startReplica(network)
  late.host.deaf = true
  network.connect(a.host, late.host)
  await until(() => late.replica.all().length === 39)
  expect(namesIn(late)).toEqual(namesIn(a))
})

test('both sides of a new connection learn from each other', async () => {
  const network = new FakeNetwork()
  const [a, b] = [await startReplica(network), await startReplica(network)]
  await a.replica.publish(ownListing(a.identity.peerId, 'from a'))
  await b.replica.publish(ownListing(b.identity.peerId, 'from b'))
  network.connect(a.host, b.host)
  await until(() => namesIn(a).length === 2 && namesIn(b).length === 2)
})

test('a listing that gossip lost is found by the next round', async () => {
  const network = new FakeNetwork()
  const options = { catchUp: { roundMs: 5 } }
  const [a, b] = [await startReplica(network, {}, options), await startReplica(network, {}, options)]
  network.connect(a.host, b.host)
  b.host.deaf = true
  await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  await until(() => namesIn(b).length === 1)
})

test('a listing that gossip could give to nobody is offered again when a peer comes', async () => {
  const network = new FakeNetwork()
  const options = { catchUp: { followUpMs: 1_000_000 } }
  const [a, b, c] = [
    await startReplica(network, {}, options),
    await startReplica(network, {}, options),
    await startReplica(network, {}, options),
  ]
  network.connect(b.host, c.host)
  a.host.linked = false
  network.connect(a.host, b.host)
  await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  a.host.linked = true
  await until(() => namesIn(c).length === 1)
  expect(a.host.published).toHaveLength(1)
})

test('D9 a node that stops waits a moment until gossip takes its last listings', async () => {
  const network = new FakeNetwork()
  const [a, b] = [await startReplica(network), await startReplica(network)]
  network.connect(a.host, b.host)
  const { id } = await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  await until(() => b.replica.get(id))
  a.host.linked = false
  await a.replica.delist(id)
  const stopped = a.replica.stop()
  a.host.linked = true
  await stopped
  await until(() => b.replica.get(id) === undefined)
})

test('a listing that catch-up brought first is passed on once when gossip brings it', async () => {
  const network = new FakeNetwork()
  const [a, b] = [await startReplica(network), await startReplica(network)]
  b.host.deaf = true
  const record = await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  network.connect(a.host, b.host)
  await until(() => b.replica.get(record.id))
  b.host.deaf = false
  const message = await until(() => a.host.published[0])
  expect(await b.host.deliver(message, a.identity.peerId)).toBe('accept')
  expect(await b.host.deliver(Buffer.concat([message, message]), a.identity.peerId)).toBe('ignore')
})

test('D9 delisting is seen by peers at once, and an older version cannot bring it back', async () => {
  const network = new FakeNetwork()
  const [a, b] = [await startReplica(network), await startReplica(network)]
  network.connect(a.host, b.host)
  const record = await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  await until(() => b.replica.get(record.id))
  const heard: string[] = []
  b.replica.onChange(({ name, state }) => void heard.push(`${name} ${state}`))
  await a.replica.delist(record.id)
  expect(a.replica.get(record.id)).toBeUndefined()
  await until(() => b.replica.get(record.id) === undefined)
  expect(heard).toEqual(['echo delisted'])

  const replay = encodeBatch([await signRecord(record, a.identity)])
  expect(await b.host.deliver(replay, a.identity.peerId)).toBe('ignore')
  expect(b.replica.get(record.id)).toBeUndefined()
})

test('registering again updates; the version rises even within one millisecond', async () => {
  const network = new FakeNetwork()
  const [a, b] = [await startReplica(network), await startReplica(network)]
  network.connect(a.host, b.host)
  const first = await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  const second = await a.replica.publish(ownListing(a.identity.peerId, 'echo', { price_atomic: 5n }))
  expect(second.id).toBe(first.id)
  expect(second.version).toBe(first.version + 1)
  await until(() => b.replica.get(first.id)?.price_atomic === 5n)
})

test('T17 a restart keeps all listings, and versions go on above the last', async () => {
  const network = new FakeNetwork()
  const [a, b] = [await startReplica(network), await startReplica(network)]
  network.connect(a.host, b.host)
  const mine = await a.replica.publish(ownListing(a.identity.peerId, 'mine'))
  await b.replica.publish(ownListing(b.identity.peerId, 'theirs'))
  await until(() => namesIn(a).length === 2)
  await a.replica.stop()

  // The clock was set back by an hour in between.
  a.clock.advance(-HOUR_MS)
  const again = await startReplica(new FakeNetwork(), a)
  expect(namesIn(again)).toEqual(['mine', 'theirs'])
  expect(again.replica.get(mine.id)).toEqual(mine)
  const next = await again.replica.publish(ownListing(a.identity.peerId, 'mine'))
  expect(next.version).toBe(mine.version + 1)
  expect(again.log).toContainEqual(expect.stringMatching(/the clock was set back/))
})

test('T17 the version is remembered even where the listings have all expired', async () => {
  const network = new FakeNetwork()
  const a = await startReplica(network)
  const before = await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  await a.replica.stop()
  a.clock.advance(2 * LISTING_TTL_MS)
  const awake = await startReplica(network, a)
  await until(() => rowsOf(awake) === 0)
  await awake.replica.stop()
  a.clock.set(before.version - HOUR_MS)
  const again = await startReplica(network, a)
  expect((await again.replica.publish(ownListing(a.identity.peerId, 'echo'))).version).toBe(before.version + 1)
})

test('T16 a listing that could not be stored is not published', async () => {
  const network = new FakeNetwork()
  const database = openDatabase({ path: ':memory:' })
  const broken: Database = { ...database, write: () => Promise.reject(new Error('disk full')) }
  const a = await startReplica(network, { database: broken })
  await expect(a.replica.publish(ownListing(a.identity.peerId, 'echo'))).rejects.toThrow('disk full')
  expect(a.replica.all()).toEqual([])
  expect(a.host.published).toEqual([])
})

test('D9 the owner refreshes before expiry; a listing that nobody refreshes leaves the market, memory and disk (T19)', async () => {
  const network = new FakeNetwork()
  const clock = new HandClock()
  const [a, b] = [await startReplica(network, { clock }), await startReplica(network, { clock })]
  network.connect(a.host, b.host)
  const first = await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  await until(() => b.replica.get(first.id))
  for (let hour = 1; hour <= 72; hour += 1) {
    clock.advance(HOUR_MS)
    await until(() => clock.now() - a.replica.get(first.id)!.version < 14 * HOUR_MS)
  }
  await until(() => b.replica.get(first.id)?.version === a.replica.get(first.id)?.version)
  expect(b.replica.get(first.id)!.version).toBeGreaterThan(first.version + 50 * HOUR_MS)
  // Refreshed about every half life, not more: the first and five or six refreshes.
  expect(a.host.published.length).toBeLessThanOrEqual(8)
  await until(() => rowsOf(b) === 1)

  network.disconnect(a.host, b.host)
  await a.replica.stop()
  clock.advance(LISTING_TTL_MS)
  expect(b.replica.get(first.id)).toBeUndefined()
  expect(b.replica.all()).toEqual([])
  clock.advance(LISTING_SKEW_MS)
  await until(() => rowsOf(b) === 0)
})

test('a listing follows the addresses of its node', async () => {
  const network = new FakeNetwork()
  const [a, b] = [await startReplica(network), await startReplica(network)]
  network.connect(a.host, b.host)
  const { id } = await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  const moved = [`/ip4/198.51.100.7/tcp/4001/p2p/${a.identity.peerId}`]
  a.host.move([...moved, '/ip4/10.0.0.1/tcp/1/p2p/somebody-else'])
  await until(() => b.replica.get(id)?.addrs[0] === moved[0])
  expect(b.replica.get(id)?.addrs).toEqual(moved)
})

test('versions under our key that a peer still holds are overtaken', async () => {
  const network = new FakeNetwork()
  const [old, b] = [await startReplica(network), await startReplica(network)]
  network.connect(old.host, b.host)
  old.clock.advance(1000)
  await old.replica.publish(ownListing(old.identity.peerId, 'echo', { description: 'before the loss' }))
  await until(() => namesIn(b).length === 1)
  await old.replica.stop()
  network.disconnect(old.host, b.host)

  // The database is lost, the key is not; and the clock is behind.
  old.clock.advance(-1000)
  const copied: string[] = []
  const fresh = await startReplica(network, { identity: old.identity, clock: old.clock }, {}, copied)
  const { id } = await fresh.replica.publish(ownListing(old.identity.peerId, 'echo', { description: 'after it' }))
  network.connect(fresh.host, b.host)
  await until(() => b.replica.get(id)?.description === 'after it')
  expect(fresh.log).toContainEqual(expect.stringMatching(/does another node use our key/))
  // An earlier life is silent from then on.
  expect(copied).toEqual([])
})

test('T33 two nodes that list under one key find each other, say so once and leave the market', async () => {
  // A fake network knows one host of each key.
  const [here, there] = [new FakeNetwork(), new FakeNetwork()]
  const copied = { first: [] as string[], second: [] as string[] }
  const first = await startReplica(here, {}, {}, copied.first)
  const second = await startReplica(there, { identity: first.identity }, {}, copied.second)
  const buyer = await startReplica(here)
  const join = (host: FakeHost, ...others: FakeHost[]) => {
    host.publish = async (_topic, data) => {
      for (const other of others) void other.deliver(data, 'neighbor')
      return others.length
    }
  }
  join(first.host, second.host, buyer.host)
  join(second.host, first.host, buyer.host)

  const { id } = await first.replica.publish(ownListing(first.identity.peerId, 'echo'))
  await until(() => namesIn(second).length === 1)
  await second.replica.publish(ownListing(first.identity.peerId, 'echo'))
  await until(() => copied.first.length > 0 && copied.second.length > 0)
  await until(() => namesIn(buyer).length === 0)
  await expect(first.replica.publish(ownListing(first.identity.peerId, 'echo'))).rejects.toMatchObject({
    code: 'LEDGER_COPIED',
  })
  // What another node with the key says later is left as it is.
  const later = listingRecord(first.identity.peerId, 'echo', first.clock.now() + 1000)
  await first.host.deliver(encodeBatch([await signRecord(later, first.identity)]), 'neighbor')
  await first.replica.delist(id)
  expect(first.replica.get(id)?.version).toBe(later.version)
  expect(copied).toEqual({ first: ['echo'], second: ['echo'] })
})

test('T33 replayed or forged listings under our key prove no second node', async () => {
  const network = new FakeNetwork()
  const copied: string[] = []
  const a = await startReplica(network, {}, {}, copied)
  const mallory = await createIdentity()
  const versions = [1, 2, 3, 4].map((n) => a.clock.now() - 1000 + n)
  const old = versions.map((version) => listingRecord(a.identity.peerId, 'echo', version))
  const { id } = await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  const mine = a.replica.get(id)!
  for (const record of old) await a.host.deliver(encodeBatch([await signRecord(record, a.identity)]), 'mallory')
  for (let n = 1; n < 5; n++) {
    const later = listingRecord(a.identity.peerId, 'echo', mine.version + n)
    await a.host.deliver(encodeBatch([await signRecord(later, mallory)]), `mallory ${n}`)
    await a.host.deliver(encodeBatch([await forgeRecord(later, a.identity)]), `mallory ${n}`)
  }
  expect(a.replica.get(id)).toEqual(mine)
  expect(copied).toEqual([])
  expect(a.log.filter((line) => line.includes('does another node use our key'))).toEqual([])
})

test('a seller of 64 agents can list no more, and a delisted agent makes room', async () => {
  const network = new FakeNetwork()
  const [a, b] = [await startReplica(network), await startReplica(network)]
  network.connect(a.host, b.host)
  const id = (n: number) => agentId(a.identity.peerId, `agent ${n}`)
  for (let n = 0; n < 64; n++) await a.replica.publish(ownListing(a.identity.peerId, `agent ${n}`))
  await expect(a.replica.publish(ownListing(a.identity.peerId, 'agent 64'))).rejects.toMatchObject({
    code: 'LISTINGS_FULL',
  })
  const delisted = a.replica.get(id(63))!
  await a.replica.delist(id(63))
  await a.replica.publish(ownListing(a.identity.peerId, 'agent 64'))
  expect(a.replica.all()).toHaveLength(64)
  await until(() => b.replica.get(id(64)))
  await until(() => namesIn(b).length === 64)
  expect(namesIn(b)).toEqual(namesIn(a))
  // Beside one that is known, so that the message itself was never sent before and gossip does not drop it unread.
  const [old, known] = await Promise.all([delisted, a.replica.get(id(0))!].map((one) => signRecord(one, a.identity)))
  const replay = encodeBatch([old!, known!])
  expect(await b.host.deliver(replay, a.identity.peerId)).toBe('ignore')
  expect(b.replica.get(id(63))).toBeUndefined()
})

test('a peer gets listings that are not written yet', async () => {
  const network = new FakeNetwork()
  const [a, seller] = [await startReplica(network, {}, { writeMs: 60_000 }), await createIdentity()]
  const envelope = await signRecord(listingRecord(seller.peerId, 'echo', a.clock.now()), seller)
  await a.host.deliver(encodeBatch([envelope]), 'neighbor')
  expect(rowsOf(a)).toBe(0)
  const late = await startReplica(network)
  network.connect(a.host, late.host)
  await until(() => namesIn(late).length === 1)
})

test('a stop sends and writes everything that waits', async () => {
  const network = new FakeNetwork()
  const a = await startReplica(network, {}, { gossip: { gatherMs: 60_000 }, writeMs: 60_000 })
  const b = await startReplica(network, {}, { writeMs: 60_000 })
  network.connect(a.host, b.host)
  await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  await a.replica.stop()
  await until(() => namesIn(b).length === 1)
  expect(rowsOf(b)).toBe(0)
  await b.replica.stop()
  expect(rowsOf(b)).toBe(1)
})

test('T17 listings that an earlier version has stored are kept, and found by peers again', async () => {
  const network = new FakeNetwork()
  const [a, late] = [await startReplica(network), await startReplica(network)]
  const mine = await a.replica.publish(ownListing(a.identity.peerId, 'mine'))
  await a.replica.stop()
  a.database.prepare('UPDATE listings SET hash = NULL, updated_at = NULL, valid_until = NULL').run()
  const again = await startReplica(network, a)
  expect(again.replica.get(mine.id)).toEqual(mine)
  const filled = again.database.prepare('SELECT count(*) AS n FROM listings WHERE hash IS NOT NULL')
  await until(() => (filled.get() as { n: number }).n === 1)
  late.host.deaf = true
  network.connect(again.host, late.host)
  await until(() => namesIn(late).length === 1)
})
