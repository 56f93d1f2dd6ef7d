import { afterEach, expect, test } from 'vitest'
import { answerFalsely, openFalsely } from '../../bench/simulation/liars.ts'
import { seededRandom } from '../../bench/simulation/random.ts'
import { FakeNetwork } from '../../test/support/fake-network.ts'
import { forgeRecord, listingRecord, ownListing, signRecord } from '../../test/support/listings.ts'
import { MadeUpReplica } from '../../test/support/made-up-replica.ts'
import { namesIn, rowsOf, startReplica, stopReplicas } from '../../test/support/replica-peer.ts'
import { until } from '../../test/support/until.ts'
import { createIdentity, type Identity } from '../p2p/identity.ts'
import { FramedStream } from '../protocols/framed-stream.ts'
import { encodeBatch } from '../protocols/sync/batch.ts'
import { SYNC_PROTOCOL } from '../protocols/sync/sync.ts'
import { LISTING_SKEW_MS, LISTING_TTL_MS } from '../schema/listing.ts'
import { openDatabase } from '../store/database.ts'
import { createListingStore } from '../store/listings.ts'

afterEach(stopReplicas)

test('T3 forged, squatting and oversized listings are rejected and change nothing', async () => {
  const network = new FakeNetwork()
  const [a, liar] = [await startReplica(network), await createIdentity()]
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

test('T3 listings that are older, known or future-dated are not passed on, and cost nobody its score', async () => {
  const network = new FakeNetwork()
  const [a, seller] = [await startReplica(network), await createIdentity()]
  const now = a.clock.now()
  const at = (version: number, changes = {}) =>
    signRecord(listingRecord(seller.peerId, 'echo', version, changes), seller).then((envelope) =>
      encodeBatch([envelope]),
    )
  const send = async (message: Uint8Array) => a.host.deliver(message, 'neighbor')
  expect(await send(await at(now))).toBe('accept')
  expect(await send(await at(now - 1))).toBe('ignore')
  expect(await send(await at(now + LISTING_SKEW_MS + 1))).toBe('ignore')
  expect(await send(await at(now - 2 * LISTING_TTL_MS))).toBe('ignore')
  expect(await send(await at(now + LISTING_SKEW_MS))).toBe('accept')
})

test('T28 every node blames the author of a batch with a good listing and a forged old one, also if it knows a newer version', async () => {
  const network = new FakeNetwork()
  const [informed, fresh] = [await startReplica(network), await startReplica(network)]
  const [seller, attacker] = [await createIdentity(), await createIdentity()]
  const now = informed.clock.now()
  const record = listingRecord(seller.peerId, 'echo', now)
  const genuine = await signRecord(record, seller)
  // `informed` knows the present version, so nothing that is older or the same is news to it; `fresh` knows none.
  await informed.host.deliver(encodeBatch([genuine]), seller.peerId)
  network.connect(informed.host, fresh.host)
  await until(() => namesIn(fresh).length === 1)
  const newcomer = await startReplica(network)
  network.connect(informed.host, newcomer.host)
  newcomer.host.verdicts.length = 0

  const forgeries = [
    await forgeRecord(listingRecord(seller.peerId, 'echo', now - 1), seller),
    await forgeRecord(record, seller),
    await forgeRecord(listingRecord(seller.peerId, 'echo', now + LISTING_SKEW_MS + 1), seller),
    await forgeRecord(listingRecord(seller.peerId, 'echo', now - 2 * LISTING_TTL_MS), seller),
  ]
  for (const [n, forgery] of forgeries.entries()) {
    const good = await signRecord(listingRecord(attacker.peerId, `bait ${n}`, now), attacker)
    expect(await informed.host.deliver(encodeBatch([good, forgery]), `attacker ${n}`)).toBe('reject')
  }
  expect(newcomer.host.verdicts).toEqual([])

  // What is old, known or too new and genuine goes on with the news of its batch.
  const good = await signRecord(listingRecord(attacker.peerId, 'news', now), attacker)
  expect(await informed.host.deliver(encodeBatch([good, genuine]), 'neighbor')).toBe('accept')
  await until(() => newcomer.host.verdicts.length === 1)
  expect(newcomer.host.verdicts).toEqual(['accept'])
})

test('T3 all replicas show the same one of two contents under one version', async () => {
  const network = new FakeNetwork()
  const [a, b, twoFaced] = [await startReplica(network), await startReplica(network), await createIdentity()]
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

test('T3 T7 a flood from one neighbor is cut off, and another neighbor is still heard', async () => {
  const network = new FakeNetwork()
  const a = await startReplica(network, {}, { gossip: { peerBurst: 20, peerPerSecond: 1 } })
  const sellers = await Promise.all(Array.from({ length: 40 }, createIdentity))
  const messages = await Promise.all(
    sellers.map(async (seller) =>
      encodeBatch([await signRecord(listingRecord(seller.peerId, 'x', a.clock.now()), seller)]),
    ),
  )
  for (const message of messages.slice(0, 39)) await a.host.deliver(message, 'flooder')
  expect(a.replica.all()).toHaveLength(20)
  expect(await a.host.deliver(messages[39]!, 'neighbor')).toBe('accept')
})

test('T29 all identities of one address share one limit, and another address is still heard', async () => {
  const network = new FakeNetwork()
  const a = await startReplica(network, {}, { gossip: { peerBurst: 20, peerPerSecond: 1 } })
  const sellers = await Promise.all(Array.from({ length: 61 }, createIdentity))
  const messages = await Promise.all(
    sellers.map(async (seller) =>
      encodeBatch([await signRecord(listingRecord(seller.peerId, 'x', a.clock.now()), seller)]),
    ),
  )
  for (const [n, message] of messages.slice(0, 60).entries()) {
    a.host.sites.set(`identity ${n}`, '192.0.2.1')
    await a.host.deliver(message, `identity ${n}`)
  }
  expect(a.replica.all()).toHaveLength(40)
  a.host.sites.set('neighbor', '192.0.2.2')
  expect(await a.host.deliver(messages[60]!, 'neighbor')).toBe('accept')
})

test('T3 a seller that changes endlessly is cut off, no matter who passes its listings on, and nobody else is', async () => {
  const network = new FakeNetwork()
  const a = await startReplica(network, {}, { gossip: { sellerBurst: 5, sellerPerSecond: 1 } })
  const [restless, victim] = [await createIdentity(), await createIdentity()]
  const now = a.clock.now()
  for (let n = 0; n < 30; n++) {
    const record = listingRecord(restless.peerId, 'x', now + n)
    await a.host.deliver(encodeBatch([await signRecord(record, restless)]), `neighbor ${n}`)
  }
  expect(a.replica.all()[0]?.version).toBe(now + 4)

  // What is only claimed to be the victim's does not spend the victim's share.
  for (let n = 0; n < 30; n++) {
    const forged = await forgeRecord(listingRecord(victim.peerId, `${n}`, now), victim)
    await a.host.deliver(encodeBatch([forged]), `liar ${n}`)
  }
  const genuine = encodeBatch([await signRecord(listingRecord(victim.peerId, 'x', now), victim)])
  expect(await a.host.deliver(genuine, 'neighbor')).toBe('accept')
})

test('T3 T7 endless new sellers do not grow the replica and push out neither known listings nor our own', async () => {
  const network = new FakeNetwork()
  const a = await startReplica(network, {}, { listingsMax: 10 })
  const sellers = await Promise.all(Array.from({ length: 30 }, createIdentity))
  for (const [n, seller] of sellers.entries()) {
    const record = listingRecord(seller.peerId, 'x', a.clock.now())
    await a.host.deliver(encodeBatch([await signRecord(record, seller)]), `neighbor ${n % 3}`)
  }
  expect(a.replica.all().map(({ seller_id }) => seller_id)).toEqual(sellers.slice(0, 10).map(({ peerId }) => peerId))
  await a.replica.publish(ownListing(a.identity.peerId, 'mine'))
  expect(namesIn(a)).toHaveLength(11)
})

test('T3 everything a peer sends is verified, no matter who opened the session', async () => {
  const network = new FakeNetwork()
  const [victim, liar, other] = await Promise.all([createIdentity(), createIdentity(), createIdentity()])
  const [honest, a] = [await startReplica(network), await startReplica(network)]
  await honest.replica.publish(ownListing(honest.identity.peerId, 'echo'))
  const forged = await forgeRecord(listingRecord(victim.peerId, 'stolen', a.clock.now()), victim)
  const madeUp = new MadeUpReplica([forged])
  const [server, client] = [network.host(liar.peerId), network.host(other.peerId)]
  await server.handle(SYNC_PROTOCOL, (stream) => void madeUp.serve(stream).catch(() => {}))
  network.connect(a.host, server)
  await until(() => a.log.length === 1)
  network.connect(a.host, client)
  await madeUp.open(await client.openStream(a.identity, SYNC_PROTOCOL)).catch(() => {})
  await until(() => a.log.length === 2)
  expect(a.log).toEqual(Array(2).fill('a peer sends false listings'))
  expect(namesIn(a)).toEqual([])

  // Who has done so is served no more, for a while.
  const before = madeUp.handed
  await expect(madeUp.open(await client.openStream(a.identity, SYNC_PROTOCOL))).rejects.toThrow()
  expect(madeUp.handed).toBe(before)
  network.connect(a.host, honest.host)
  await until(() => namesIn(a).includes('echo'))
})

test('T3 T7 a peer that offers only old listings is heard for a while, and in the end not at all', async () => {
  const network = new FakeNetwork()
  const [replayer, a] = [await createIdentity(), await startReplica(network)]
  const now = a.clock.now()
  const sellers = await Promise.all(Array.from({ length: 10 }, createIdentity))
  const versionsOf = (seller: Identity, version: number) =>
    Promise.all(Array.from({ length: 60 }, (_, n) => signRecord(listingRecord(seller.peerId, `${n}`, version), seller)))
  for (const seller of sellers) await a.host.deliver(encodeBatch(await versionsOf(seller, now)), 'neighbor')
  const past = await Promise.all(sellers.flatMap((seller) => [1, 2, 3].map((age) => versionsOf(seller, now - age))))
  const madeUp = new MadeUpReplica(past.flat())
  const host = network.host(replayer.peerId)
  network.connect(a.host, host)
  const handed: number[] = []
  for (let session = 0; session < 6; session++) {
    await madeUp.open(await host.openStream(a.identity, SYNC_PROTOCOL))
    handed.push(madeUp.handed)
  }
  // Of 1800, what is under way or made ready before the first batch is found to be of no use; from the fifth session on nothing.
  expect(handed[0]).toBeGreaterThan(0)
  expect(handed[0]).toBeLessThan(1200)
  expect(handed[5]).toBe(4 * handed[0]!)
  expect(a.replica.all().every(({ version }) => version === now)).toBe(true)
  expect(a.log).toEqual([])
})

test('T3 T7 a peer with endless new identities gets only its share of the room, by sessions or gossip', async () => {
  const network = new FakeNetwork()
  const a = await startReplica(network, {}, { listingsMax: 100, bytesMax: 100 * 2000 })
  const madeUp = async (count: number, description: string) => {
    const sellers = await Promise.all(Array.from({ length: count }, createIdentity))
    const now = a.clock.now()
    return Promise.all(sellers.map((one) => signRecord(listingRecord(one.peerId, 'x', now, { description }), one)))
  }
  const [flooder, gossiper, heavy] = await Promise.all([createIdentity(), createIdentity(), createIdentity()])
  const host = network.host(flooder.peerId)
  network.connect(a.host, host)
  const flood = new MadeUpReplica(await madeUp(300, 'one of a million'))
  await flood.open(await host.openStream(a.identity, SYNC_PROTOCOL))
  expect(a.replica.count()).toBe(50)
  expect(flood.handed).toBeLessThanOrEqual(300)

  // Long ones: bytes are counted too. Half of them are 100,000.
  for (const envelope of await madeUp(60, 'x'.repeat(4000))) {
    await a.host.deliver(encodeBatch([envelope]), heavy.peerId)
  }
  const bytes = a.database.prepare('SELECT sum(length(envelope)) AS n FROM listings')
  await until(() => rowsOf(a) === a.replica.count())
  expect((bytes.get() as { n: number }).n).toBeLessThanOrEqual(200_000)
  expect(a.replica.count()).toBeLessThan(50 + 25)

  for (const envelope of await madeUp(60, 'by gossip')) await a.host.deliver(encodeBatch([envelope]), gossiper.peerId)
  expect(a.replica.count()).toBe(100)

  // What was there is still changed, and our own is listed all the same.
  await a.replica.publish(ownListing(a.identity.peerId, 'mine'))
  expect(a.replica.own()).toHaveLength(1)
  expect(a.replica.count()).toBe(101)
})

test('T7 a peer that reconciles endlessly is cut off, and others are served meanwhile', async () => {
  const network = new FakeNetwork()
  const [a, endless, honest] = [await startReplica(network), await createIdentity(), await startReplica(network)]
  for (let n = 0; n < 60; n++) await a.replica.publish(ownListing(a.identity.peerId, `agent ${n}`))
  const host = network.host(endless.peerId)
  network.connect(a.host, host)
  const random = seededRandom(1)
  const stream = new FramedStream(await host.openStream(a.identity, SYNC_PROTOCOL))
  const never = new AbortController().signal
  let messages = 0
  const babble = async () => {
    await stream.write({ type: 'sync.open', data: openFalsely('endless', random) }, never)
    for (;;) {
      const frame = await stream.read(never)
      if (frame?.type !== 'sync.ranges') return frame?.type
      messages++
      await stream.write({ type: 'sync.ranges', data: answerFalsely('endless', frame.data, false, random) }, never)
    }
  }
  const ended = babble().catch((error: Error) => error.name)
  network.connect(a.host, honest.host)
  await until(() => namesIn(honest).length === 60)
  expect(await ended).toMatch(/sync\.enough|sync\.listings|sync\.end|Error/)
  expect(messages).toBeLessThanOrEqual(128)
})

test('T31 a peer that asks for endless sessions gets a few at once, and then one every ten seconds', async () => {
  const network = new FakeNetwork()
  const [a, asker] = [await startReplica(network), await createIdentity()]
  const host = network.host(asker.peerId)
  network.connect(a.host, host)
  const empty = new MadeUpReplica([])
  const isServed = async () =>
    empty.open(await host.openStream(a.identity, SYNC_PROTOCOL)).then(
      () => true,
      () => false,
    )
  // One that ended a moment ago may still be there.
  for (let count = 0; count < 12; count++) await until(isServed)
  for (let count = 0; count < 20; count++) expect(await isServed()).toBe(false)
  a.clock.advance(10_000)
  await until(isServed)
  for (let count = 0; count < 20; count++) expect(await isServed()).toBe(false)
})

test('T5 a listing that two peers send at once is taken once', async () => {
  const network = new FakeNetwork()
  const a = await startReplica(network)
  const told: string[] = []
  a.replica.onChange(({ id }) => void told.push(id))
  const seller = await createIdentity()
  const envelopes = await Promise.all(
    Array.from({ length: 40 }, (_, n) => signRecord(listingRecord(seller.peerId, `${n}`, a.clock.now()), seller)),
  )
  const bearers = await Promise.all([createIdentity(), createIdentity(), createIdentity()])
  await Promise.all(
    bearers.map(async ({ peerId }) => {
      const host = network.host(peerId)
      network.connect(a.host, host)
      await new MadeUpReplica(envelopes).open(await host.openStream(a.identity, SYNC_PROTOCOL))
    }),
  )
  expect(told.toSorted()).toEqual([...new Set(told)].toSorted())
  expect(told).toHaveLength(40)
})

test('T19 two equal replicas send nothing, and the listing of a seller that is gone expires', async () => {
  const network = new FakeNetwork()
  const [a, seller, peer] = [await startReplica(network), await createIdentity(), await createIdentity()]
  const now = a.clock.now()
  const envelopes = await Promise.all(
    Array.from({ length: 50 }, (_, n) => signRecord(listingRecord(seller.peerId, `${n}`, now - n), seller)),
  )
  await a.host.deliver(encodeBatch(envelopes), 'neighbor')
  const host = network.host(peer.peerId)
  network.connect(a.host, host)
  const madeUp = new MadeUpReplica(envelopes)
  for (let round = 0; round < 3; round++) await madeUp.open(await host.openStream(a.identity, SYNC_PROTOCOL))
  expect([madeUp.handed, madeUp.taken.length]).toEqual([0, 0])

  a.clock.advance(LISTING_TTL_MS + LISTING_SKEW_MS)
  await until(() => rowsOf(a) === 0)
  expect(a.replica.count()).toBe(0)
  // It cannot come back.
  await madeUp.open(await host.openStream(a.identity, SYNC_PROTOCOL))
  expect([a.replica.count(), rowsOf(a)]).toEqual([0, 0])
})

test('T29 T31 a peer that keeps this node writing delays no session with others, and is no longer heard', async () => {
  const network = new FakeNetwork()
  const database = openDatabase({ path: ':memory:' })
  const stored = createListingStore(database)
  const { promise: over, resolve: end } = Promise.withResolvers<void>()
  let attackers = 0
  // What one address sends comes faster than the disk takes it: to write all takes as long as the attack.
  const flush = (party?: string) => (party === undefined ? over.then(() => stored.flush()) : stored.flush(party))
  const waiting = (party: string) => (party === 'attacker' ? attackers : stored.waiting(party))
  const a = await startReplica(network, { database, store: { ...stored, flush, waiting } })
  const [honest, seller] = [await startReplica(network), await createIdentity()]
  let last = seller
  // More than a session holds in memory.
  const AGENTS = 600
  for (let n = 0; n < AGENTS; n++) {
    const owner = n % 60 === 0 ? await createIdentity() : last
    last = owner
    const record = listingRecord(owner.peerId, `agent ${n}`, honest.clock.now(), { description: 'x'.repeat(1000) })
    await honest.host.deliver(encodeBatch([await signRecord(record, owner)]), `source ${n % 2}`)
  }
  const news = async (version: number) =>
    encodeBatch([await signRecord(listingRecord(seller.peerId, 'echo', version), seller)])
  const now = a.clock.now()
  expect(await a.host.deliver(await news(now), 'attacker')).toBe('accept')
  attackers = 4096
  expect(await a.host.deliver(await news(now + 1), 'attacker')).toBe('ignore')
  expect(await a.host.deliver(await news(now + 2), 'neighbor')).toBe('accept')
  network.connect(honest.host, a.host)
  await until(() => namesIn(a).length === AGENTS + 1).finally(end)
})
