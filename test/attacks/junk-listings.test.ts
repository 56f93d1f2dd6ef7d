/** T29, T32: two identities of one address tell of made-up sellers without end. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Part, startPart } from '../../bench/part.ts'
import type { JunkOrder } from '../support/junk-peers.ts'
import { discover, startTestNode, stopTestNodes, type TestNode } from '../support/loopback-node.ts'
import { type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { until } from '../support/until.ts'

const CALLS = 100
/** Of several rounds the best counts, quiet and flooded alike: other processes slow some of them. */
const ROUNDS = 5
/** All of them together are no more than one address may hand over at once. */
const JUNK_PER_ROUND = 800
const JUNK_PEERS = '../test/support/junk-peers.ts'

let dataDir: string
let seller: NodeProcess
let buyer: TestNode
let echo: string
let attackers: Part | undefined

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'stoa-junk-'))
  const agents = [{ name: 'echo', description: 'says it again', price: 0, model: 'builtin/echo' }]
  // JSON is YAML too.
  await writeFile(join(dataDir, 'agents.yaml'), JSON.stringify({ agents }), { mode: 0o600 })
  const environment = { ETHEREUM_PRIVATE_KEY: generatePrivateKey() }
  seller = await startNodeProcess({ args: ['--data-dir', dataDir], environment })
  buyer = await startTestNode({ key: generatePrivateKey(), bootstrap: [sellersAddress()] })
  echo = (await discover(buyer, seller.ready.peer_id, 'echo')).id
})
afterAll(async () => {
  await attackers?.stop()
  await stopTestNodes()
  await seller?.stop()
  await rm(dataDir, { recursive: true, force: true })
})

function sellersAddress(): string {
  return seller.ready.addresses.find((address) => address.includes('/tcp/'))!
}

/** Milliseconds within which 99 of 100 calls end. */
async function honestP99(): Promise<number> {
  const times: number[] = []
  for (let call = 0; call < CALLS; call++) {
    const startedAt = performance.now()
    await buyer.execute({ agentId: echo, input: `call ${call}`, signal: AbortSignal.timeout(30_000) })
    times.push(performance.now() - startedAt)
  }
  return times.sort((a, b) => a - b)[Math.floor(0.99 * CALLS)]!
}

async function listed(): Promise<number> {
  const status = (await (await fetch(`${seller.ready.api_url}/status`)).json()) as { agents: { known: number } }
  return status.agents.known
}

test('T29 T32 of an honest buyer’s calls 99 in 100 take at most three times as long while junk is learned and indexed', async () => {
  const [quiet, flooded]: number[][] = [[], []]
  for (let round = 0; round < ROUNDS; round++) {
    quiet!.push(await honestP99())
    attackers = await startPart({
      file: JUNK_PEERS,
      setup: { address: sellersAddress(), peerId: seller.ready.peer_id },
    })
    const order = (asked: JunkOrder) => attackers!.ask<void>(asked)
    await order({ kind: 'make', listings: JUNK_PER_ROUND })
    const known = await listed()
    // Both send all they have at once: what a neighbor may hand over in one go (T7) is not refused.
    const sent = order({ kind: 'gossip' })
    flooded!.push(await honestP99())
    await sent
    // None of it is lost: it comes second.
    await until(async () => (await listed()) === known + JUNK_PER_ROUND, { timeoutMs: 60_000, everyMs: 100 })
    await attackers.stop()
  }
  expect(Math.min(...flooded!) / Math.min(...quiet!)).toBeLessThan(3)
})

test('T7 T32 so do they while a neighbor sends thousands of small messages in each transmission', async () => {
  const [quiet, flooded]: number[][] = [[], []]
  for (let round = 0; round < ROUNDS; round++) {
    quiet!.push(await honestP99())
    attackers = await startPart({
      file: JUNK_PEERS,
      setup: { address: sellersAddress(), peerId: seller.ready.peer_id },
    })
    const order: JunkOrder = { kind: 'flood', topic: 'nobody listens', transmissions: 20, messages: 4000 }
    const sent = attackers.ask<void>(order)
    flooded!.push(await honestP99())
    await sent
    await attackers.stop()
  }
  expect(Math.min(...flooded!) / Math.min(...quiet!)).toBeLessThan(3)
})
