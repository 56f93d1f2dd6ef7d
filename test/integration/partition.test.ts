import { afterEach, expect, test } from 'vitest'
import { agentId } from '../../src/agents/agent-id.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createReplica, type Replica, type ReplicaHost } from '../../src/market/replica.ts'
import { createIdentity, type Identity } from '../../src/p2p/identity.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createListingStore } from '../../src/store/listings.ts'
import { HandClock } from '../support/hand-clock.ts'
import { ownListing } from '../support/listings.ts'
import { startTestHost } from '../support/test-host.ts'
import { until } from '../support/until.ts'

type Peer = { identity: Identity; host: ReplicaHost & { peerId: string }; replica: Replica; clock: HandClock }

const stops: (() => Promise<void>)[] = []

afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()))
})

async function start(): Promise<Peer> {
  const identity = await createIdentity()
  const host = await startTestHost({ identity })
  const database = openDatabase({ path: ':memory:' })
  const clock = new HandClock()
  const deps = { host, identity, store: createListingStore(database), clock, logger: silentLogger }
  const catchUp = { retryMs: 50, followUpMs: 200, roundMs: 100 }
  const replica = createReplica({ tickMs: 20, writeMs: 5, gossip: { gatherMs: 5, retryMs: 50 }, catchUp }, deps)
  await replica.start()
  stops.push(async () => {
    await replica.stop()
    await host.stop()
    await database.close()
  })
  return { identity, host, replica, clock }
}

async function connect(from: Peer, to: Peer): Promise<void> {
  const where = { peerId: to.host.peerId, addrs: to.host.addresses() }
  const stream = await from.host.openStream(where, '/ipfs/ping/1.0.0', AbortSignal.timeout(5000))
  stream.abort(new Error('only to connect'))
}

const stateOf = ({ replica }: Peer) =>
  replica
    .all()
    .map(({ name, version, description }) => `${name} ${version} ${description}`)
    .sort()
    .join('\n')

test('T3 six nodes, parted into three and three, heal to one state whatever changed on either side', async () => {
  const nodes = await Promise.all(Array.from({ length: 6 }, start))
  const [a, b, c, d, e, f] = nodes as [Peer, Peer, Peer, Peer, Peer, Peer]
  // The parts have never met: for what each lists, they are as if parted.
  await Promise.all([connect(a, b), connect(b, c), connect(d, e), connect(e, f)])
  const list = (peer: Peer, name: string, description: string) =>
    peer.replica.publish(ownListing(peer.identity.peerId, name, { description }))
  for (const [n, peer] of nodes.entries()) {
    for (const name of ['kept', 'changed', 'delisted']) await list(peer, `${name} ${n}`, 'first')
  }
  await until(() => [a, b, c].every(({ replica }) => replica.count() === 9))
  await until(() => [d, e, f].every(({ replica }) => replica.count() === 9))

  // They meet, part, and both sides change what the other has seen.
  await connect(c, d)
  await until(() => nodes.every(({ replica }) => replica.count() === 18))
  const linked = stops.splice(2, 2)
  await Promise.all(linked.map((stop) => stop()))
  for (const peer of nodes) peer.clock.advance(1000)
  const left = [a, b, e, f]
  await until(() => left.every(({ host }) => host.peers().length === 1))
  for (const peer of left) {
    const n = nodes.indexOf(peer)
    await list(peer, `changed ${n}`, 'second')
    await peer.replica.delist(agentId(peer.identity.peerId, `delisted ${n}`))
    await list(peer, `new ${n}`, 'first')
  }
  await until(() => stateOf(a) === stateOf(b) && stateOf(e) === stateOf(f) && stateOf(a) !== stateOf(e))

  const [g, h] = [await start(), await start()]
  for (const peer of [g, h]) peer.clock.advance(1000)
  await Promise.all([connect(b, g), connect(e, h)])
  await connect(g, h)
  const healed = [...left, g, h]
  await until(() => healed.every((peer) => stateOf(peer) === stateOf(a)))
  // Of c and d, who are gone, all three; of the others what is kept, changed and new.
  expect(a.replica.count()).toBe(2 * 3 + 4 * 3)
  expect(a.replica.all().filter(({ name }) => /^delisted [0145]/.test(name))).toEqual([])
  expect(a.replica.all().filter(({ description }) => description === 'second')).toHaveLength(4)
})
