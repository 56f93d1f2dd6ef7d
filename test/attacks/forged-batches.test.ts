/** T28: a good listing and a forged one in one message, to make honest nodes blame each other, on real hosts. */
import { afterEach, expect, test } from 'vitest'
import { silentLogger } from '../../src/lib/logger.ts'
import { LISTINGS_TOPIC } from '../../src/listings/gossip.ts'
import { createReplica, type Replica } from '../../src/listings/replica.ts'
import type { Host } from '../../src/p2p/host.ts'
import { createIdentity, type Identity } from '../../src/p2p/identity.ts'
import { encodeBatch } from '../../src/protocols/sync/batch.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createListingStore } from '../../src/store/listings.ts'
import { ECHO, echo, serveEcho, within } from '../support/attack.ts'
import { HandClock } from '../support/hand-clock.ts'
import { expectBearable } from '../support/honest-calls.ts'
import { forgeRecord, listingRecord, ownListing, signRecord } from '../support/listings.ts'
import { startTestHost, whereIs } from '../support/test-host.ts'
import { until } from '../support/until.ts'

type ReplicaOptions = Parameters<typeof createReplica>[0]

/** One for each round: a node hears no more of it once it has been found out. */
const ATTACKERS = 3
const BATCHES = 20
const CHANGES = 12
/** What is known comes by gossip alone. */
const options: ReplicaOptions = {
  tickMs: 20,
  writeMs: 5,
  gossip: { gatherMs: 5, retryMs: 50 },
  catchUp: { peersMax: 0, roundMs: 1_000_000 },
}
const cleanups: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

type Peer = { identity: Identity; host: Host; replica: Replica }

async function start(clock: HandClock): Promise<Peer> {
  const identity = await createIdentity()
  const host = await startTestHost({ identity })
  const database = openDatabase({ path: ':memory:' })
  const store = createListingStore(database)
  const replica = createReplica(options, { host, identity, store, clock, logger: silentLogger })
  await replica.start()
  cleanups.push(async () => {
    await replica.stop()
    await host.stop()
    await database.close()
  })
  return { identity, host, replica }
}

async function connect(from: Host, to: Host): Promise<void> {
  const stream = await from.openStream(whereIs(to), '/ipfs/ping/1.0.0', within(30_000))
  stream.abort(new Error('only to connect'))
}

/** Gossip knows of a new neighbor a moment after it connects. */
const send = (from: Host, envelopes: Uint8Array[]) =>
  until(async () => (await from.publish(LISTINGS_TOPIC, encodeBatch(envelopes))) > 0)

test('D8: honest nodes still hear each other, and calls stay as quick as before', { retry: 2 }, async () => {
  const clock = new HandClock()
  const [informed, fresh, honest] = [await start(clock), await start(clock), await startTestHost()]
  cleanups.push(() => honest.stop())
  await serveEcho(informed.host)
  // Known here alone: `fresh` would have to believe a forged version of it, or blame who passes it on.
  const { id } = await informed.replica.publish(ownListing(informed.identity.peerId, 'echo'))
  await connect(fresh.host, informed.host)
  const attackers = await Promise.all(
    Array.from({ length: ATTACKERS }, async () => {
      const identity = await createIdentity()
      const host = await startTestHost({ identity })
      cleanups.push(() => host.stop())
      host.subscribe(LISTINGS_TOPIC, async () => 'ignore')
      await connect(host, informed.host)
      // Signed before: the attacker's own work is not to be measured.
      const batches: Uint8Array[][] = []
      for (let count = 0; count < BATCHES; count++) {
        const now = clock.now()
        const good = await signRecord(listingRecord(identity.peerId, `bait ${count}`, now), identity)
        const old = listingRecord(informed.identity.peerId, 'echo', now - 1 - count)
        batches.push([good, await forgeRecord(old, informed.identity)])
      }
      return { host, batches }
    }),
  )
  const stream = await honest.openStream(whereIs(informed.host, 'tcp'), ECHO, within(60_000))
  await expectBearable(
    () => echo(stream),
    async (round) => {
      const { host, batches } = attackers[round]!
      for (const batch of batches) await send(host, batch)
    },
  )
  let heard = 0
  for (let change = 0; change < CHANGES; change++) {
    clock.advance(1_000)
    const description = `change ${change}`
    await informed.replica.publish(ownListing(informed.identity.peerId, 'echo', { description }))
    await until(() => fresh.replica.get(id)?.description === description)
    heard++
  }
  expect(heard).toBe(CHANGES)
})
