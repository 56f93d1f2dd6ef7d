/** T35: a process is killed in a purchase through the OpenAI door, and its client asks another process of the node at once. */
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import OpenAI from 'openai'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { ask, discovered } from '../support/api-calls.ts'
import { localAddress } from '../support/loopback.ts'
import { startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { endLease } from '../support/server-ledgers.ts'
import { createTestDatabase } from '../support/test-postgres.ts'
import { until } from '../support/until.ts'

const PRICE = 5_000n
const FUNDS = 1_000_000n
/** How long a client waits. A process that has ended is taken over within some seconds. */
/** How long a client waits for an answer, and for one that does not come. */
const [WAIT_MS, VAIN_MS] = [120_000, 25_000]
let devnet: Devnet
let seller: TestNode
let agent: string
let runs: string

beforeAll(async () => {
  devnet = await startDevnet()
  const chain = { rpcUrl: devnet.rpcUrl, facilitatorUrl: devnet.facilitatorUrl }
  seller = await startTestNode({ key: devnet.wallets.seller.privateKey, ...chain })
  runs = join(seller.dataDir, 'runs')
  const command = ['/bin/sh', '-c', 'echo run >> "$0"; cat', runs]
  agent = (await seller.registerAgent({ name: 'echo', description: 'Says it.', price: PRICE, command })).id
})
afterAll(async () => {
  await killNodeProcesses()
  await stopTestNodes()
  await devnet?.stop()
})

async function openFleet() {
  const database = await createTestDatabase()
  onTestFinished(() => database.drop())
  const key = generatePrivateKey()
  await devnet.fund(privateKeyToAccount(key).address, FUNDS)
  const dirs = [await testDir(), await testDir()] as const
  for (const dir of dirs)
    await writeFile(join(dir, 'config.yaml'), 'openai_door: true\nbuyer: {channels: off}\n', { mode: 0o600 })
  const bootstrap = localAddress(seller.addresses())
  const start = async (at: 0 | 1, faultPoint?: string): Promise<NodeProcess> => {
    const node = await startNodeProcess({
      ...{ faultPoint, args: ['--data-dir', dirs[at], '--bootstrap', bootstrap] },
      environment: {
        ...{ ETHEREUM_RPC_URL: devnet.rpcUrl, FACILITATOR_URL: devnet.facilitatorUrl },
        ...{ BUYER_PRIVATE_KEY: key, DATABASE_URL: database.address() },
      },
    })
    await discovered(node.ready.api_url, agent)
    return node
  }
  return {
    start,
    address: database.address(),
    payer: privateKeyToAccount(key).address,
    share: () => copyFile(join(dirs[0], 'identity.key'), join(dirs[1], 'identity.key')),
  }
}

const say = ({ ready }: NodeProcess, content: string, headers: Record<string, string>, timeout = WAIT_MS) => {
  const { chat } = new OpenAI({ baseURL: `${ready.api_url}/v1`, apiKey: 'any', maxRetries: 0, timeout })
  const asked = { model: agent, messages: [{ role: 'user' as const, content }] }
  return chat.completions.create(asked, { headers }).then(
    ({ choices }) => choices[0]!.message.content!,
    ({ code }: { code?: string }) => code ?? 'the connection broke',
  )
}
const runsOf = async () => (await readFile(runs, 'utf8').catch(() => '')).length / 'run\n'.length

const KEYED = { 'idempotency-key': 'the-same' }

test.each<[string, Record<string, string>, boolean]>([
  ['buyer:signed', {}, true],
  ['buyer:signed', KEYED, true],
  // What was reserved and never sent ends with its window: until then nothing else is bought.
  ['buyer:reserved', {}, false],
  ['buyer:answered', {}, true],
  ['buyer:answered', KEYED, true],
])(
  'T35: killed at %s, asked again elsewhere with %j: bought once, answered: %s',
  async (faultPoint, headers, isAnswered) => {
    const { start, share, payer, address } = await openFleet()
    const first = await start(0, faultPoint)
    await share()
    const second = await start(1)
    const before = await runsOf()
    const task = `killed at ${faultPoint}`
    const lost = say(first, task, headers)
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
    expect(await lost).toBe('the connection broke')
    const again = say(second, task, headers, isAnswered ? WAIT_MS : VAIN_MS)
    await endLease(address, first.child.pid!)
    expect(await again).toBe(isAnswered ? task : 'the connection broke')
    await until(async () => (await seller.status()).settlement.pending === 0, { timeoutMs: 60_000, everyMs: 200 })
    const orders = await ask<{ payment?: object }[]>(second.ready.api_url, '/orders?limit=20')
    expect(orders.filter(({ payment }) => payment !== undefined)).toHaveLength(1)
    const ran = (await runsOf()) - before
    expect(ran).toBe(isAnswered ? 1 : 0)
    expect(await devnet.chain.balanceOf(payer)).toBe(FUNDS - BigInt(ran) * PRICE)
    await second.stop()
  },
)
