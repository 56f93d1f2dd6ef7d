import { afterEach, expect, test } from 'vitest'
import { type FakeHost, FakeNetwork } from '../../test/support/fake-network.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { forgeRecord, listingRecord, ownListing, signRecord } from '../../test/support/listings.ts'
import { until } from '../../test/support/until.ts'
import { agentId } from '../agents/agent-id.ts'
import { silentLogger } from '../lib/logger.ts'
import { createIdentity, type Identity } from '../p2p/identity.ts'
import { encodeBatch } from '../protocols/listing-batch.ts'
import { LISTING_SKEW_MS, LISTING_TTL_MS } from '../schema/listing.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { createListingStore } from '../store/listings.ts'
import { createReplica, type Replica, type ReplicaOptions } from './replica.ts'

const HOUR_MS = 60 * 60 * 1000

type Peer = {
  identity: Identity
  host: FakeHost
  database: Database
  clock: HandClock
  replica: Replica
  log: string[]
}

const running: Replica[] = []

afterEach(async () => {
  await Promise.all(running.splice(0).map((replica) => replica.stop()))
})

const quick: ReplicaOptions = {
  tickMs: 5,
  writeMs: 1,
  addressesMs: 1,
  gossip: { gatherMs: 1, retryMs: 2 },
  catchUp: { retryMs: 2, followUpMs: 2, roundMs: 1_000_000 },
}

/** A started replica. Give it parts of an earlier one to start that one anew. */
async function peer(
  network: FakeNetwork,
  earlier: Partial<Pick<Peer, 'identity' | 'database' | 'clock'>> = {},
  options: ReplicaOptions = {},
): Promise<Peer> {
  const identity = earlier.identity ?? (await createIdentity())
  const database = earlier.database ?? openDatabase({ path: ':memory:' })
  const clock = earlier.clock ?? new HandClock()
  const host = network.host(identity.peerId)
  const log: string[] = []
  const logger = { ...silentLogger, warn: (_: object, message: string) => void log.push(message) }
  const deps = { host, identity, store: createListingStore(database), clock, logger }
  const gossip = { ...quick.gossip, ...options.gossip }
  const catchUp = { ...quick.catchUp, ...options.catchUp }
  const replica = createReplica({ ...quick, ...options, gossip, catchUp }, deps)
  await replica.start()
  running.push(replica)
  return { identity, host, database, clock, replica, log }
}

const names = ({ replica }: Pick<Peer, 'replica'>) =>
  replica
    .all()
    .map(({ name }) => name)
    .sort()
const rows = ({ database }: Peer) => database.prepare('SELECT count(*) AS n FROM listings').get() as { n: number }

test('a listing reaches peers by gossip, also over others', async () => {
  const network = new FakeNetwork()
  const [a, b, c] = [await peer(network), await peer(network), await peer(network)]
  network.connect(a.host, b.host)
  network.connect(b.host, c.host)
  const record = await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  await until(() => c.replica.get(record.id))
  expect(c.replica.get(record.id)).toEqual(record)
  expect(record).toMatchObject({ version: a.clock.now(), addrs: a.host.announced, state: 'active' })
})

test('a late joiner catches up by asking, with gossip or without', async () => {
  const network = new FakeNetwork()
  const a = await peer(network)
  for (let n = 0; n < 40; n++) await a.replica.publish(ownListing(a.identity.peerId, `agent ${n}`))
  await a.replica.delist(agentId(a.identity.peerId, 'agent 0'))
  const late = await peer(network)
  late.host.deaf = true
  network.connect(a.host, late.host)
  await until(() => late.replica.all().length === 39)
  expect(names(late)).toEqual(names(a))
})

test('both sides of a new connection learn from each other', async () => {
  const network = new FakeNetwork()
  const [a, b] = [await peer(network), await peer(network)]
  await a.replica.publish(ownListing(a.identity.peerId, 'from a'))
  await b.replica.publish(ownListing(b.identity.peerId, 'from b'))
  network.connect(a.host, b.host)
  await until(() => names(a).length === 2 && names(b).length === 2)
})

test('a listing that gossip lost is found by the next round', async () => {
  const network = new FakeNetwork()
  const options = { catchUp: { roundMs: 5 } }
  const [a, b] = [await peer(network, {}, options), await peer(network, {}, options)]
  network.connect(a.host, b.host)
  b.host.deaf = true
  await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  await until(() => names(b).length === 1)
})

test('what gossip could not hand to anybody is offered again once it can', async () => {
  const network = new FakeNetwork()
  const options = { catchUp: { followUpMs: 1_000_000 } }
  const [a, b, c] = [
    await peer(network, {}, options),
    await peer(network, {}, options),
    await peer(network, {}, options),
  ]
  network.connect(b.host, c.host)
  a.host.linked = false
  network.connect(a.host, b.host)
  await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  a.host.linked = true
  await until(() => names(c).length === 1)
  expect(a.host.published).toHaveLength(1)
})

test('D9 a node that stops waits a moment for gossip to take its last word', async () => {
  const network = new FakeNetwork()
  const [a, b] = [await peer(network), await peer(network)]
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

test('what catch-up brought first is still passed on, once, when gossip brings it', async () => {
  const network = new FakeNetwork()
  const [a, b] = [await peer(network), await peer(network)]
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
  const [a, b] = [await peer(network), await peer(network)]
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
  const [a, b] = [await peer(network), await peer(network)]
  network.connect(a.host, b.host)
  const first = await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  const second = await a.replica.publish(ownListing(a.identity.peerId, 'echo', { price_atomic: 5n }))
  expect(second.id).toBe(first.id)
  expect(second.version).toBe(first.version + 1)
  await until(() => b.replica.get(first.id)?.price_atomic === 5n)
})

test('T17 a restart keeps all listings, and versions go on above the last', async () => {
  const network = new FakeNetwork()
  const [a, b] = [await peer(network), await peer(network)]
  network.connect(a.host, b.host)
  const mine = await a.replica.publish(ownListing(a.identity.peerId, 'mine'))
  await b.replica.publish(ownListing(b.identity.peerId, 'theirs'))
  await until(() => names(a).length === 2)
  await a.replica.stop()

  // The clock was set back by an hour in between.
  a.clock.advance(-HOUR_MS)
  const again = await peer(new FakeNetwork(), a)
  expect(names(again)).toEqual(['mine', 'theirs'])
  expect(again.replica.get(mine.id)).toEqual(mine)
  const next = await again.replica.publish(ownListing(a.identity.peerId, 'mine'))
  expect(next.version).toBe(mine.version + 1)
  expect(again.log).toContainEqual(expect.stringMatching(/the clock was set back/))
})

test('T17 the version is remembered even where the listings have all expired', async () => {
  const network = new FakeNetwork()
  const a = await peer(network)
  const before = await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  await a.replica.stop()
  a.clock.advance(2 * LISTING_TTL_MS)
  const awake = await peer(network, a)
  await until(() => rows(awake).n === 0)
  await awake.replica.stop()
  a.clock.set(before.version - HOUR_MS)
  const again = await peer(network, a)
  expect((await again.replica.publish(ownListing(a.identity.peerId, 'echo'))).version).toBe(before.version + 1)
})

test('T16 a listing that could not be stored is not published', async () => {
  const network = new FakeNetwork()
  const database = openDatabase({ path: ':memory:' })
  const broken: Database = { ...database, write: () => Promise.reject(new Error('disk full')) }
  const a = await peer(network, { database: broken })
  await expect(a.replica.publish(ownListing(a.identity.peerId, 'echo'))).rejects.toThrow('disk full')
  expect(a.replica.all()).toEqual([])
  expect(a.host.published).toEqual([])
})

test('D9 the owner refreshes before expiry; what nobody refreshes vanishes from view, memory and disk (T19)', async () => {
  const network = new FakeNetwork()
  const clock = new HandClock()
  const [a, b] = [await peer(network, { clock }), await peer(network, { clock })]
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
  await until(() => rows(b).n === 1)

  network.disconnect(a.host, b.host)
  await a.replica.stop()
  clock.advance(LISTING_TTL_MS)
  expect(b.replica.get(first.id)).toBeUndefined()
  expect(b.replica.all()).toEqual([])
  clock.advance(LISTING_SKEW_MS)
  await until(() => rows(b).n === 0)
})

test('a listing follows the addresses of its node', async () => {
  const network = new FakeNetwork()
  const [a, b] = [await peer(network), await peer(network)]
  network.connect(a.host, b.host)
  const { id } = await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  const moved = [`/ip4/198.51.100.7/tcp/4001/p2p/${a.identity.peerId}`]
  a.host.move([...moved, '/ip4/10.0.0.1/tcp/1/p2p/somebody-else'])
  await until(() => b.replica.get(id)?.addrs[0] === moved[0])
  expect(b.replica.get(id)?.addrs).toEqual(moved)
})

test('versions under our key that a peer still holds are overtaken', async () => {
  const network = new FakeNetwork()
  const [old, b] = [await peer(network), await peer(network)]
  network.connect(old.host, b.host)
  old.clock.advance(1000)
  await old.replica.publish(ownListing(old.identity.peerId, 'echo', { description: 'before the loss' }))
  await until(() => names(b).length === 1)
  await old.replica.stop()
  network.disconnect(old.host, b.host)

  // The database is lost, the key is not; and the clock is behind.
  old.clock.advance(-1000)
  const fresh = await peer(network, { identity: old.identity, clock: old.clock })
  const { id } = await fresh.replica.publish(ownListing(old.identity.peerId, 'echo', { description: 'after it' }))
  network.connect(fresh.host, b.host)
  await until(() => b.replica.get(id)?.description === 'after it')
  expect(fresh.log).toContainEqual(expect.stringMatching(/does another node use our key/))
})

test('a seller of 64 agents can list no more, but what it delists makes room without harm', async () => {
  const network = new FakeNetwork()
  const [a, b] = [await peer(network), await peer(network)]
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
  await until(() => names(b).length === 64)
  expect(names(b)).toEqual(names(a))
  const replay = encodeBatch([await signRecord(delisted, a.identity)])
  expect(await b.host.deliver(replay, a.identity.peerId)).toBe('ignore')
  expect(b.replica.get(id(63))).toBeUndefined()
})

test('a peer is served with what has not yet been written', async () => {
  const network = new FakeNetwork()
  const [a, seller] = [await peer(network, {}, { writeMs: 60_000 }), await createIdentity()]
  const envelope = await signRecord(listingRecord(seller.peerId, 'echo', a.clock.now()), seller)
  await a.host.deliver(encodeBatch([envelope]), 'neighbour')
  expect(rows(a).n).toBe(0)
  const late = await peer(network)
  network.connect(a.host, late.host)
  await until(() => names(late).length === 1)
})

test('a stop sends and writes what was waiting', async () => {
  const network = new FakeNetwork()
  const a = await peer(network, {}, { gossip: { gatherMs: 60_000 }, writeMs: 60_000 })
  const b = await peer(network, {}, { writeMs: 60_000 })
  network.connect(a.host, b.host)
  await a.replica.publish(ownListing(a.identity.peerId, 'echo'))
  await a.replica.stop()
  await until(() => names(b).length === 1)
  expect(rows(b).n).toBe(0)
  await b.replica.stop()
  expect(rows(b).n).toBe(1)
})

test('T3 forged, squatting and oversized listings are rejected and change nothing', async () => {
  const network = new FakeNetwork()
  const [a, liar] = [await peer(network), await createIdentity()]
  const now = a.clock.now()
  const record = listingRecord(a.identity.peerId, 'echo', now)
  const hostile = [
    await forgeRecord(record, a.identity),
    await signRecord(record, liar),
    await signRecord(listingRecord(liar.peerId, 'x', now, { id: record.id }), liar),
    new Uint8Array(20_000),
  ]
  for (const [n, envelope] of hostile.entries()) {
    expect(await a.host.deliver(encodeBatch([envelope]), `liar ${n}`)).toBe('reject')
  }
  expect(await a.host.deliver(new Uint8Array([0, 0, 1]), 'liar')).toBe('reject')
  expect(a.replica.all()).toEqual([])
})

test('T3 what is older, known or future-dated is not passed on, and costs nobody its score', async () => {
  const network = new FakeNetwork()
  const [a, seller] = [await peer(network), await createIdentity()]
  const now = a.clock.now()
  const at = (version: number, changes = {}) =>
    signRecord(listingRecord(seller.peerId, 'echo', version, changes), seller).then((envelope) =>
      encodeBatch([envelope]),
    )
  const send = async (message: Uint8Array) => a.host.deliver(message, 'neighbour')
  expect(await send(await at(now))).toBe('accept')
  expect(await send(await at(now - 1))).toBe('ignore')
  expect(await send(await at(now + LISTING_SKEW_MS + 1))).toBe('ignore')
  expect(await send(await at(now - 2 * LISTING_TTL_MS))).toBe('ignore')
  expect(await send(await at(now + LISTING_SKEW_MS))).toBe('accept')
})

test('T3 of two contents under one version all replicas show the same', async () => {
  const network = new FakeNetwork()
  const [a, b, twoFaced] = [await peer(network), await peer(network), await createIdentity()]
  const now = a.clock.now()
  const [one, two] = await Promise.all(
    ['one', 'two'].map((description) =>
      signRecord(listingRecord(twoFaced.peerId, 'echo', now, { description }), twoFaced),
    ),
  )
  await a.host.deliver(encodeBatch([one!]), twoFaced.peerId)
  await b.host.deliver(encodeBatch([two!]), twoFaced.peerId)
  expect(a.replica.all()).not.toEqual(b.replica.all())
  network.connect(a.host, b.host)
  await until(() => a.replica.all()[0]?.description === b.replica.all()[0]?.description)
  expect(a.replica.all()).toEqual(b.replica.all())
})

test('T3 T7 a flood from one neighbour is cut off, and another neighbour is still heard', async () => {
  const network = new FakeNetwork()
  const a = await peer(network, {}, { gossip: { peerBurst: 20, peerPerSecond: 1 } })
  const sellers = await Promise.all(Array.from({ length: 40 }, createIdentity))
  const messages = await Promise.all(
    sellers.map(async (seller) =>
      encodeBatch([await signRecord(listingRecord(seller.peerId, 'x', a.clock.now()), seller)]),
    ),
  )
  for (const message of messages.slice(0, 39)) await a.host.deliver(message, 'flooder')
  expect(a.replica.all()).toHaveLength(20)
  expect(await a.host.deliver(messages[39]!, 'neighbour')).toBe('accept')
})

test('T3 one seller that changes without end is cut off, whoever passes it on, and pays for nobody else', async () => {
  const network = new FakeNetwork()
  const a = await peer(network, {}, { gossip: { sellerBurst: 5, sellerPerSecond: 1 } })
  const [restless, victim] = [await createIdentity(), await createIdentity()]
  const now = a.clock.now()
  for (let n = 0; n < 30; n++) {
    const record = listingRecord(restless.peerId, 'x', now + n)
    await a.host.deliver(encodeBatch([await signRecord(record, restless)]), `neighbour ${n}`)
  }
  expect(a.replica.all()[0]?.version).toBe(now + 4)

  // What is only claimed to be the victim's does not spend the victim's share.
  for (let n = 0; n < 30; n++) {
    const forged = await forgeRecord(listingRecord(victim.peerId, `${n}`, now), victim)
    await a.host.deliver(encodeBatch([forged]), `liar ${n}`)
  }
  const genuine = encodeBatch([await signRecord(listingRecord(victim.peerId, 'x', now), victim)])
  expect(await a.host.deliver(genuine, 'neighbour')).toBe('accept')
})

test('T3 T7 fresh sellers without end do not grow the replica nor push out who was there, nor our own', async () => {
  const network = new FakeNetwork()
  const a = await peer(network, {}, { listingsMax: 10 })
  const sellers = await Promise.all(Array.from({ length: 30 }, createIdentity))
  for (const seller of sellers) {
    const record = listingRecord(seller.peerId, 'x', a.clock.now())
    await a.host.deliver(encodeBatch([await signRecord(record, seller)]), 'neighbour')
  }
  expect(a.replica.all().map(({ seller_id }) => seller_id)).toEqual(sellers.slice(0, 10).map(({ peerId }) => peerId))
  await a.replica.publish(ownListing(a.identity.peerId, 'mine'))
  expect(names(a)).toHaveLength(11)
})

test('T3 what a peer hands over in a catch-up is verified as from an enemy', async () => {
  const network = new FakeNetwork()
  const victim = await createIdentity()
  const honest = await peer(network)
  await honest.replica.publish(ownListing(honest.identity.peerId, 'echo'))
  const liar = await peer(network)
  const forged = await forgeRecord(listingRecord(victim.peerId, 'stolen', liar.clock.now()), victim)
  liar.database.prepare("INSERT INTO listings VALUES ('aaaa', ?, 1, 9e15, 'active', ?)").run(victim.peerId, forged)
  await liar.replica.publish(ownListing(liar.identity.peerId, 'liar'))

  const a = await peer(network)
  network.connect(a.host, liar.host)
  network.connect(a.host, honest.host)
  await until(() => names(a).includes('echo'))
  await until(() => a.log.includes('a peer hands over false listings'))
  expect(names(a)).not.toContain('stolen')
})
