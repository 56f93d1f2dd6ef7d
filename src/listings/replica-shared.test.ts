/** Two processes of one seller, each with a market host of its own, that sign listings on one ledger. */
import { afterEach, expect, onTestFinished, test } from 'vitest'
import { FakeNetwork } from '../../test/support/fake-network.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { ownListing } from '../../test/support/listings.ts'
import { namesIn, type ReplicaPeer, startReplica, stopReplicas } from '../../test/support/replica-peer.ts'
import { until } from '../../test/support/until.ts'
import { LISTING_TTL_MS } from '../schema/listing.ts'
import { openDatabase } from '../store/database.ts'
import { createListingVersions, type ListingVersions } from '../store/listing-versions.ts'

afterEach(stopReplicas)

function openLedger(): ListingVersions {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  return createListingVersions(database)
}

/** Each look at it is 10 ms after the look before. */
class PassingClock extends HandClock {
  override now(): number {
    this.advance(10)
    return super.now()
  }
}

type Shop = {
  seller: string
  first: ReplicaPeer
  second: ReplicaPeer
  buyer: ReplicaPeer
  copied: string[]
  network: FakeNetwork
}

/** Two processes that are connected, and a buyer that is connected with both. */
async function openShop(versions = openLedger()): Promise<Shop> {
  const network = new FakeNetwork()
  const copied: string[] = []
  const first = await startReplica(network, { hostId: 'market 1', versions }, {}, copied)
  const { identity, clock } = first
  const second = await startReplica(network, { identity, clock, hostId: 'market 2', versions }, {}, copied)
  const buyer = await startReplica(network, { clock })
  network.connect(first.host, second.host)
  for (const { host } of [first, second]) network.connect(host, buyer.host)
  const shop = { seller: identity.peerId, first, second, buyer, copied, network }
  moveTo(shop, at(shop, 1))
  return shop
}

const at = ({ seller }: Pick<Shop, 'seller'>, ...ports: number[]) =>
  ports.map((port) => `/ip4/9.9.9.9/tcp/${port}/p2p/${seller}`)

/** Both processes learn the addresses of all processes. */
function moveTo({ first, second }: Shop, addresses: string[]): void {
  for (const { host } of [first, second]) host.move(addresses)
}

const versionIn = ({ replica }: ReplicaPeer, id: string) => replica.get(id)?.version ?? 0

/** Waits until all three hold the same version, which both processes have heard of. */
async function settled({ first, second, buyer }: Shop, id: string, from = 1): Promise<number> {
  return await until(() => {
    const versions = new Set([first, second, buyer].map((peer) => versionIn(peer, id)))
    const [version = 0] = versions
    return versions.size === 1 && version >= from ? version : undefined
  })
}

test('two processes list one agent, and neither takes the other for a copy', async () => {
  const shop = await openShop()
  const own = ownListing(shop.seller, 'echo')
  await Promise.all([shop.first.replica.publish(own), shop.second.replica.publish(own)])
  const version = await settled(shop, own.id)
  moveTo(shop, at(shop, 1, 2))
  await until(() => shop.buyer.replica.get(own.id)?.addrs.length === 2)
  await settled(shop, own.id, version + 1)
  moveTo(shop, at(shop, 2))
  await until(() => shop.buyer.replica.get(own.id)?.addrs.join() === at(shop, 2).join())
  expect(shop.copied).toEqual([])
  expect([...shop.first.log, ...shop.second.log]).toEqual([])
})

test('T31 processes that see different addresses do not sign against each other without end', async () => {
  const shop = await openShop()
  const { first, second, buyer } = shop
  first.host.move(at(shop, 1, 2))
  second.host.move(at(shop, 2))
  const own = ownListing(shop.seller, 'echo')
  await first.replica.publish(own)
  const version = (await second.replica.publish(own)).version
  await settled(shop, own.id, version)
  const signed = () => first.host.published.length + second.host.published.length
  const looks = [first, second].map(({ host }) => {
    const addresses = host.addresses.bind(host)
    const look = { count: 0 }
    host.addresses = () => {
      look.count += 1
      return addresses()
    }
    return look
  })
  for (let minute = 0; minute < 100; minute++) {
    first.clock.advance(60_000)
    for (const look of looks) look.count = 0
    await until(() => looks.every(({ count }) => count > 1), { everyMs: 1 })
  }
  expect(signed()).toBeLessThan(16)
  expect(shop.copied).toEqual([])
  // A change of what is sold goes out at once, and addresses that both see too.
  await second.replica.publish({ ...own, description: 'dearer' })
  await until(() => buyer.replica.get(own.id)?.description === 'dearer')
  moveTo(shop, at(shop, 5))
  await until(() => buyer.replica.get(own.id)?.addrs.join() === at(shop, 5).join())
})

test('a listing that one process refreshed is not due at the other', async () => {
  const shop = await openShop()
  const own = ownListing(shop.seller, 'echo')
  await Promise.all([shop.first.replica.publish(own), shop.second.replica.publish(own)])
  const version = await settled(shop, own.id)
  const signed = () => shop.first.host.published.length + shop.second.host.published.length
  const before = signed()
  shop.first.clock.advance(LISTING_TTL_MS * 0.6)
  await settled(shop, own.id, version + 1)
  // Both may have found it due at the same instant. Neither answers the other.
  expect(signed() - before).toBeLessThanOrEqual(2)
  expect(shop.copied).toEqual([])
})

test('an agent is on the market while one of the processes sells it', async () => {
  const shop = await openShop()
  const own = ownListing(shop.seller, 'echo')
  await Promise.all([shop.first.replica.publish(own), shop.second.replica.publish(own)])
  const version = await settled(shop, own.id)
  await shop.first.replica.delist(own.id)
  await settled(shop, own.id, version + 1)
  expect(namesIn(shop.buyer)).toEqual(['echo'])
  await shop.second.replica.delist(own.id)
  await until(() => [shop.first, shop.second, shop.buyer].every((peer) => namesIn(peer).length === 0))
  expect(shop.copied).toEqual([])
})

test('T33 a copy of the node on another ledger is found, by the copy and by a process of the seller', async () => {
  const shop = await openShop()
  const { identity, clock } = shop.first
  const own = ownListing(shop.seller, 'echo')
  await Promise.all([shop.first.replica.publish(own), shop.second.replica.publish(own)])
  await settled(shop, own.id)
  const met: string[] = []
  // Its time passes, so it never comes to a version that the processes have taken.
  const passing = new PassingClock(clock.now())
  const parts = { identity, clock: passing, hostId: 'a copy', versions: openLedger() }
  const copy = await startReplica(shop.network, parts, {}, met)
  shop.network.connect(copy.host, shop.first.host)
  shop.network.connect(copy.host, shop.second.host)
  await copy.replica.publish(own)
  await until(() => met.length > 0 && shop.copied.length > 0)
  expect(met).toEqual(['echo'])
})

test('without the ledger no listing is signed', async () => {
  const ledger = openLedger()
  let isAway = false
  const versions: ListingVersions = {
    ...ledger,
    take: async (...args) => {
      if (isAway) throw new Error('the ledger is away')
      return ledger.take(...args)
    },
  }
  const shop = await openShop(versions)
  const own = ownListing(shop.seller, 'echo')
  await shop.first.replica.publish(own)
  const version = await settled(shop, own.id)
  isAway = true
  await expect(shop.first.replica.publish(own)).rejects.toThrow('the ledger is away')
  expect(versionIn(shop.first, own.id)).toBe(version)
  moveTo(shop, at(shop, 4))
  await until(() => shop.first.log.some((line) => line.includes('could not be refreshed')))
  isAway = false
  await until(() => shop.buyer.replica.get(own.id)?.addrs.join() === at(shop, 4).join())
})
