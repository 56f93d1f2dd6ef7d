import { afterEach, expect, test } from 'vitest'
import { FakeNetwork } from '../../test/support/fake-network.ts'
import { forgeRecord, listingRecord, ownListing, signRecord } from '../../test/support/listings.ts'
import { namesIn, startReplica, stopReplicas } from '../../test/support/replica-peer.ts'
import { until } from '../../test/support/until.ts'
import { createIdentity } from '../p2p/identity.ts'
import { encodeBatch } from '../protocols/listing-batch.ts'
import { LISTING_SKEW_MS, LISTING_TTL_MS } from '../schema/listing.ts'

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

test('T3 what is older, known or future-dated is not passed on, and costs nobody its score', async () => {
  const network = new FakeNetwork()
  const [a, seller] = [await startReplica(network), await createIdentity()]
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

test('T3 T7 a flood from one neighbour is cut off, and another neighbour is still heard', async () => {
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
  expect(await a.host.deliver(messages[39]!, 'neighbour')).toBe('accept')
})

test('T3 one seller that changes without end is cut off, whoever passes it on, and pays for nobody else', async () => {
  const network = new FakeNetwork()
  const a = await startReplica(network, {}, { gossip: { sellerBurst: 5, sellerPerSecond: 1 } })
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
  const a = await startReplica(network, {}, { listingsMax: 10 })
  const sellers = await Promise.all(Array.from({ length: 30 }, createIdentity))
  for (const seller of sellers) {
    const record = listingRecord(seller.peerId, 'x', a.clock.now())
    await a.host.deliver(encodeBatch([await signRecord(record, seller)]), 'neighbour')
  }
  expect(a.replica.all().map(({ seller_id }) => seller_id)).toEqual(sellers.slice(0, 10).map(({ peerId }) => peerId))
  await a.replica.publish(ownListing(a.identity.peerId, 'mine'))
  expect(namesIn(a)).toHaveLength(11)
})

test('T3 what a peer hands over in a catch-up is verified as from an enemy', async () => {
  const network = new FakeNetwork()
  const victim = await createIdentity()
  const honest = await startReplica(network)
  await honest.replica.publish(ownListing(honest.identity.peerId, 'echo'))
  const liar = await startReplica(network)
  const forged = await forgeRecord(listingRecord(victim.peerId, 'stolen', liar.clock.now()), victim)
  liar.database.prepare("INSERT INTO listings VALUES ('aaaa', ?, 1, 9e15, 'active', ?)").run(victim.peerId, forged)
  await liar.replica.publish(ownListing(liar.identity.peerId, 'liar'))

  const a = await startReplica(network)
  network.connect(a.host, liar.host)
  network.connect(a.host, honest.host)
  await until(() => namesIn(a).includes('echo'))
  await until(() => a.log.includes('a peer hands over false listings'))
  expect(namesIn(a)).not.toContain('stolen')
})
