import { afterEach, expect, test } from 'vitest'
import { agentId } from '../../src/agents/agent-id.ts'
import { CodedError } from '../../src/lib/errors.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createReplica, type Replica, type ReplicaHost } from '../../src/listings/replica.ts'
import type { Host } from '../../src/p2p/host.ts'
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

/** Who is on the other side, while the wall stands. Connections stay up, and nothing passes. */
const wall = { up: false, left: new Set<string>() }
const isAcross = (a: string, b: string) => wall.up && wall.left.has(a) !== wall.left.has(b)

function walled(host: Host): ReplicaHost & { peerId: string } {
  const own = host.peerId
  return {
    peerId: own,
    addresses: () => host.addresses(),
    peers: () => host.peers().filter(({ peerId }) => !isAcross(own, peerId)),
    publish: (topic, data) => host.publish(topic, data),
    onPeerConnect: (listener) => host.onPeerConnect(listener),
    onAddressesChange: (listener) => host.onAddressesChange(listener),
    async openStream(peer, protocol, signal) {
      if (isAcross(own, peer.peerId)) throw new CodedError('PEER_UNREACHABLE', 'across the wall')
      return await host.openStream(peer, protocol, signal)
    },
    handle: (protocol, handler) =>
      host.handle(protocol, (stream, peerId) => {
        if (isAcross(own, peerId)) stream.abort(new Error('across the wall'))
        else handler(stream, peerId)
      }),
    subscribe: (topic, receive) =>
      host.subscribe(topic, async (data, from) => (isAcross(own, from) ? 'ignore' : await receive(data, from))),
  }
}

async function start(): Promise<Peer> {
  const identity = await createIdentity()
  const real = await startTestHost({ identity })
  const host = walled(real)
  const database = openDatabase({ path: ':memory:' })
  const clock = new HandClock()
  const deps = { host, identity, store: createListingStore(database), clock, logger: silentLogger }
  const catchUp = { retryMs: 50, followUpMs: 200, roundMs: 100 }
  const replica = createReplica({ tickMs: 20, writeMs: 5, gossip: { gatherMs: 5, retryMs: 50 }, catchUp }, deps)
  await replica.start()
  stops.push(async () => {
    await replica.stop()
    await real.stop()
    await database.close()
  })
  return { identity, host, replica, clock }
}

async function connect(from: Peer, to: Peer): Promise<void> {
  const where = { peerId: to.host.peerId, addrs: to.host.addresses('') }
  const stream = await from.host.openStream(where, '/ipfs/ping/1.0.0', AbortSignal.timeout(60_000))
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
  for (const [n, peer] of nodes.entries()) await connect(peer, nodes[(n + 1) % 6]!)
  const list = (peer: Peer, name: string, description: string) =>
    peer.replica.publish(ownListing(peer.identity.peerId, name, { description }))
  for (const [n, peer] of nodes.entries()) {
    for (const name of ['kept', 'changed', 'delisted']) await list(peer, `${name} ${n}`, 'first')
  }
  await until(() => nodes.every(({ replica }) => replica.count() === 18))

  const [left, right] = [nodes.slice(0, 3), nodes.slice(3)]
  for (const { host } of left) wall.left.add(host.peerId)
  wall.up = true
  for (const [n, peer] of nodes.entries()) {
    peer.clock.advance(1000)
    await list(peer, `changed ${n}`, 'second')
    await peer.replica.delist(agentId(peer.identity.peerId, `delisted ${n}`))
    await list(peer, `new ${n}`, 'first')
  }
  const agree = (peers: Peer[]) => peers.every((peer) => stateOf(peer) === stateOf(peers[0]!))
  await until(() => agree(left) && agree(right) && [...left, ...right].every(({ replica }) => replica.count() === 18))
  // Each side has its own changes, and still shows what the other has delisted.
  for (const [peer, own, other] of [
    [left[0]!, /[012]$/, /[345]$/],
    [right[0]!, /[345]$/, /[012]$/],
  ] as const) {
    const named = (what: RegExp) => peer.replica.all().filter(({ name }) => what.test(name))
    expect(named(/^delisted/).every(({ name }) => other.test(name))).toBe(true)
    expect(named(/^new/).every(({ name }) => own.test(name))).toBe(true)
  }

  wall.up = false
  await until(() => agree(nodes))
  const all = nodes[0]!.replica.all()
  expect(all).toHaveLength(18)
  expect(all.filter(({ name }) => name.startsWith('delisted'))).toEqual([])
  expect(all.filter(({ description }) => description === 'second')).toHaveLength(6)
})
