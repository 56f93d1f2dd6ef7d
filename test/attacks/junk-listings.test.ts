/** T29, T32: two identities of one address tell of made-up sellers without end. */
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { LISTINGS_TOPIC } from '../../src/market/listing-gossip.ts'
import type { Host } from '../../src/p2p/host.ts'
import { createIdentity } from '../../src/p2p/identity.ts'
import { encodeBatch, splitBatches } from '../../src/protocols/listing-batch.ts'
import { listingRecord, signRecord } from '../support/listings.ts'
import { discover, startTestNode, stopTestNodes, type TestNode } from '../support/loopback-node.ts'
import { startTestHost } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const SELLERS = 60
const LISTINGS_PER_SELLER = 32
const CALLS = 100
/** Of several rounds the best counts, quiet and flooded alike: other processes slow some of them. */
const ROUNDS = 3

let seller: TestNode
let buyer: TestNode
const attackers: Host[] = []
let echo: string

beforeAll(async () => {
  seller = await startTestNode({ key: generatePrivateKey() })
  const agent = { name: 'echo', description: 'says it again', price: 0n, model: 'builtin/echo' }
  await seller.registerAgent(agent, { persist: false })
  buyer = await startTestNode({ key: generatePrivateKey(), bootstrap: [seller.addresses()[0]!] })
  echo = (await discover(buyer, seller.peerId, 'echo')).id
  for (let n = 0; n < 2; n++) {
    const host = await startTestHost()
    attackers.push(host)
    host.subscribe(LISTINGS_TOPIC, async () => 'ignore')
    const stream = await host.openStream(
      { peerId: seller.peerId, addrs: seller.addresses() },
      '/ipfs/ping/1.0.0',
      AbortSignal.timeout(5000),
    )
    stream.abort(new Error('only to connect'))
  }
})
afterAll(async () => {
  await Promise.all(attackers.map((host) => host.stop()))
  await stopTestNodes()
})

/** Milliseconds within which 95 of 100 calls end. */
async function slowCalls(): Promise<number> {
  const times: number[] = []
  for (let call = 0; call < CALLS; call++) {
    const startedAt = performance.now()
    await buyer.execute({ agentId: echo, input: `call ${call}`, signal: AbortSignal.timeout(30_000) })
    times.push(performance.now() - startedAt)
  }
  return times.sort((a, b) => a - b)[Math.floor(0.95 * CALLS)]!
}

/** Messages with large listings, each of other words, so that there is much to index. */
async function junk(): Promise<Uint8Array[]> {
  const envelopes: Uint8Array[] = []
  const now = Date.now()
  for (let index = 0; index < SELLERS; index++) {
    const identity = await createIdentity()
    for (let n = 0; n < LISTINGS_PER_SELLER; n++) {
      const words = Array.from({ length: 150 }, () => Math.random().toString(36).slice(2, 8))
      const record = listingRecord(identity.peerId, `${words[0]} ${n}`, now, {
        description: words.join(' ').slice(0, 1000),
        tags: words.slice(0, 5),
      })
      envelopes.push(await signRecord(record, identity))
    }
  }
  return [...splitBatches(envelopes, { itemsMax: 64, bytesMax: 64 * 1024 })].map((batch) => encodeBatch(batch))
}

test('calls of an honest buyer go on while junk is learned and indexed', async () => {
  const messages = await junk()
  const [quiet, flooded]: number[][] = [[], []]
  for (let round = 0; round < ROUNDS; round++) quiet!.push(await slowCalls())
  const part = Math.ceil(messages.length / ROUNDS)
  for (let round = 0; round < ROUNDS; round++) {
    // Both send all they have at once: what a neighbor may hand over in one go (T7) is not refused.
    const known = seller.listings().length
    for (const [n, message] of messages.slice(round * part, (round + 1) * part).entries()) {
      // Gossip knows of a new neighbor a moment after it connects.
      await until(async () => (await attackers[n % 2]!.publish(LISTINGS_TOPIC, message)) > 0)
    }
    await until(() => seller.listings().length > known, { timeoutMs: 60_000, everyMs: 100 })
    flooded!.push(await slowCalls())
  }
  // Sellers, buyer and both attackers share this process: below 50 ms their own work decides.
  expect(Math.min(...flooded!) / Math.max(50, Math.min(...quiet!))).toBeLessThan(3)
})
