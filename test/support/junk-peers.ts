/** Attackers in a separate process: two identities on one address that announce made-up sellers without end (T29). */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { RPC } from '@libp2p/gossipsub/message'
import { peerIdFromString } from '@libp2p/peer-id'
import { servePart } from '../../bench/part.ts'
import { LISTINGS_TOPIC } from '../../src/listings/gossip.ts'
import type { Host } from '../../src/p2p/host.ts'
import { createIdentity } from '../../src/p2p/identity.ts'
import { encodeBatch, splitBatches } from '../../src/protocols/sync/batch.ts'
import { SYNC_PROTOCOL } from '../../src/protocols/sync/sync.ts'
import { listingRecord, signRecord } from './listings.ts'
import { MadeUpReplica } from './made-up-replica.ts'
import { startTestHost } from './test-host.ts'
import { until } from './until.ts'

/**
 * `make` creates listings, `gossip` publishes all of them at once, `hand over` offers them to peers that catch up.
 * `flood` sends small messages on a topic, and checking their signatures is wasted work.
 */
export type JunkOrder =
  | { kind: 'make'; listings: number }
  | { kind: 'gossip' }
  | { kind: 'hand over' }
  | { kind: 'flood'; topic: string; transmissions: number; messages: number }

const LISTINGS_PER_SELLER = 32

servePart(async ({ address = '', peerId = '' }) => {
  const hosts: Host[] = []
  let envelopes: Uint8Array[] = []
  let market = new MadeUpReplica([])

  /** Joins as a node of the market that has nothing to catch up with. */
  async function enter(): Promise<Host> {
    const host = await startTestHost()
    hosts.push(host)
    host.subscribe(LISTINGS_TOPIC, async () => 'ignore')
    await host.handle(SYNC_PROTOCOL, (stream) => void market.serve(stream).catch(() => {}))
    const stream = await host.openStream({ peerId, addrs: [address] }, '/ipfs/ping/1.0.0', AbortSignal.timeout(60_000))
    stream.abort(new Error('only to connect'))
    return host
  }

  async function gossip(): Promise<void> {
    const messages = [...splitBatches(envelopes, { itemsMax: 64, bytesMax: 64 * 1024 })].map((one) => encodeBatch(one))
    for (const [n, message] of messages.entries()) {
      // Gossip knows of a new neighbor a moment after it connects.
      await until(async () => (await hosts[n % 2]!.publish(LISTINGS_TOPIC, message)) > 0)
    }
  }

  async function flood({ topic, transmissions, messages }: JunkOrder & { kind: 'flood' }): Promise<void> {
    const host = await enter()
    const where = { peerId, addrs: [address] }
    const stream = await host.openStream(where, '/meshsub/1.1.0', AbortSignal.timeout(60_000))
    for (let n = 0; n < transmissions; n++) {
      const sent = stream.send(transmission(host.peerId, topic, messages))
      if (!sent) await once(stream, 'drain', { signal: AbortSignal.timeout(60_000) })
    }
  }

  return {
    ready: {},
    async answer(order) {
      const asked = order as JunkOrder
      if (asked.kind === 'make') envelopes = await junk(asked.listings)
      if (asked.kind === 'gossip') {
        while (hosts.length < 2) await enter()
        await gossip()
      }
      if (asked.kind === 'flood') await flood(asked)
      if (asked.kind === 'hand over') {
        market = new MadeUpReplica(envelopes)
        await enter()
      }
      return undefined
    },
    async stop() {
      await Promise.all(hosts.map((host) => host.stop()))
    },
  }
})

/** Large listings with different words, so that there is much to index. */
async function junk(count: number): Promise<Uint8Array[]> {
  const envelopes: Uint8Array[] = []
  const now = Date.now()
  let identity = await createIdentity()
  for (let n = 0; n < count; n++) {
    if (n % LISTINGS_PER_SELLER === 0) identity = await createIdentity()
    const words = Array.from({ length: 150 }, () => Math.random().toString(36).slice(2, 8))
    const record = listingRecord(identity.peerId, `${words[0]} ${n}`, now, {
      description: words.join(' ').slice(0, 1000),
      tags: words.slice(0, 5),
    })
    envelopes.push(await signRecord(record, identity))
  }
  return envelopes
}

/** Encodes many messages in gossipsub's format. None is signed by its named author. */
function transmission(peerId: string, topic: string, count: number): Uint8Array {
  const from = peerIdFromString(peerId).toMultihash().bytes
  const messages = Array.from({ length: count }, () => ({
    ...{ from, topic, data: randomBytes(8), seqno: randomBytes(8), signature: randomBytes(64) },
  }))
  const bytes = RPC.encode({ subscriptions: [], messages })
  const length: number[] = []
  for (let left = bytes.length; ; left >>>= 7) {
    length.push(left < 128 ? left : (left % 128) + 128)
    if (left < 128) return Buffer.concat([Uint8Array.from(length), bytes])
  }
}
