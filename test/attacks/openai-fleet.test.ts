/** T25, T35: programs that send requests to two processes of a node that share a ledger, behind one address, at once. */
import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { ask } from '../support/api-calls.ts'
import { discover, startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { createTestDatabase, type TestDatabase } from '../support/test-postgres.ts'
import { until } from '../support/until.ts'

const PRICE = 5_000n
/** By how much the clock of the second process is ahead, in ms. */
let ahead = 0
let devnet: Devnet
let database: TestDatabase
let buyers: readonly TestNode[]
let agent: string
let apiKey: string

beforeAll(async () => {
  devnet = await startDevnet()
  database = await createTestDatabase()
  const chain = { rpcUrl: devnet.rpcUrl, facilitatorUrl: devnet.facilitatorUrl }
  const seller = await startTestNode({ key: devnet.wallets.seller.privateKey, ...chain })
  await seller.registerAgent({ name: 'echo', description: 'Says it.', price: PRICE, command: ['/bin/cat'] })
  const shared = {
    ...{ key: devnet.wallets.buyer.privateKey, ...chain, databaseUrl: database.address() },
    ...{ bootstrap: [seller.addresses()[0]!], apiEnabled: true, openaiDoor: true },
  }
  const one = await startTestNode(shared)
  const dataDir = await testDir()
  await copyFile(join(one.dataDir, 'identity.key'), join(dataDir, 'identity.key'))
  // No two clocks are the same.
  const clock = { ...systemClock, now: () => systemClock.now() + ahead }
  buyers = [one, await startTestNode({ ...shared, dataDir, ports: { clock } })]
  for (const buyer of buyers) agent = (await discover(buyer, seller.peerId, 'echo')).id
  const token = { name: 'program', scope: 'spend', budget: '1' }
  apiKey = (await ask<{ token: string }>(one.apiUrl!, '/tokens', { body: token })).token
})
afterAll(async () => {
  await stopTestNodes()
  await devnet?.stop()
  await database?.drop()
})

/** What a request for this task is answered: its text, or the code of its error. */
function say(buyer: TestNode, content: string, key?: string): Promise<string> {
  const client = new OpenAI({ baseURL: `${buyer.apiUrl}/v1`, apiKey, maxRetries: 0 })
  const asked = { model: agent, messages: [{ role: 'user' as const, content }] }
  const headers = key === undefined ? {} : { 'idempotency-key': key }
  return client.chat.completions.create(asked, { headers }).then(
    ({ choices }) => choices[0]!.message.content!,
    ({ code }: { code: string }) => code,
  )
}

async function paidFor(tasks: readonly string[]): Promise<string[]> {
  const { items } = await buyers[0]!.orders.list({ limit: 100 })
  const paid = items.filter(({ task, payment }) => payment !== undefined && tasks.includes(task ?? ''))
  return paid.map(({ task }) => task!)
}

test('T25: one Idempotency-Key with two requests, each at another process, buys one of them', async () => {
  for (let round = 0; round < 5; round++) {
    const tasks = [`this ${round}`, `that ${round}`]
    const answers = await Promise.all(tasks.map((task, at) => say(buyers[at]!, task, `key-${round}`)))
    await until(async () => (await paidFor(tasks)).length > 0)
    const [bought] = await paidFor(tasks)
    expect(await paidFor(tasks)).toEqual([bought])
    expect(answers.toSorted()).toEqual([bought, 'idempotency_conflict'].toSorted())
    // Nor is it bought later, wherever.
    const other = tasks.find((task) => task !== bought)!
    for (const buyer of buyers) expect(await say(buyer, other, `key-${round}`)).toBe('idempotency_conflict')
    for (const buyer of buyers) expect(await say(buyer, bought!, `key-${round}`)).toBe(bought)
    expect(await paidFor(tasks)).toEqual([bought])
  }
})

test('T25: one request with one Idempotency-Key at both processes is bought once, and both answer', async () => {
  for (let round = 0; round < 5; round++) {
    const task = `the same ${round}`
    const answers = await Promise.all(buyers.map((buyer) => say(buyer, task, `same-${round}`)))
    expect(answers).toEqual([task, task])
    expect(await paidFor([task])).toEqual([task])
  }
})

test('T35: one request without a key at both processes at once is bought once, whatever their clocks say', async () => {
  for (let round = 0; round < 16; round++) {
    // At one of these differences, both are in other half minutes.
    ahead = round * 2_000
    const task = `without a key ${round}`
    const answers = await Promise.all(buyers.map((buyer) => say(buyer, task)))
    expect(answers).toEqual([task, task])
    expect(await paidFor([task])).toEqual([task])
  }
})
