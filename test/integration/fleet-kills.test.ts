/** Three processes of one seller on one ledger, killed one after the other under calls, with the chain as judge. */
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { loadOrCreateIdentity } from '../../src/p2p/identity.ts'
import type { OrderRecord } from '../../src/schema/order.ts'
import { all } from '../../src/store/query.ts'
import { askServer } from '../support/ledger-engine.ts'
import { discover, startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { createTestDatabase } from '../support/test-postgres.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
const CALLS = 48
const AT_ONCE = 16
const PROCESSES = ['a', 'b', 'c'] as const
type Name = (typeof PROCESSES)[number]
/** A lease of 20 s, the start of a process, and settlement, on busy cores. */
const WAIT = { timeoutMs: 120_000, everyMs: 100 }
let devnet: Devnet
let buyer: TestNode

beforeAll(async () => {
  devnet = await startDevnet()
  const { rpcUrl, facilitatorUrl } = devnet
  const key = devnet.wallets.buyer.privateKey
  buyer = await startTestNode({ key, rpcUrl, facilitatorUrl, dailyBudgetAtomic: 10_000_000n })
})
afterAll(async () => {
  await killNodeProcesses()
  await stopTestNodes()
  await devnet.stop()
}, 30_000)

/** Data directories with one identity and one wallet. The agent notes each run, by its task, in one file. */
async function openShop() {
  const key = generatePrivateKey()
  const database = await createTestDatabase()
  const dirs = { a: await testDir(), b: await testDir(), c: await testDir() }
  const runs = join(dirs.a, 'runs')
  const { peerId } = await loadOrCreateIdentity(join(dirs.a, 'identity.key'))
  for (const name of PROCESSES) {
    const dir = dirs[name]
    if (name !== 'a') await copyFile(join(dirs.a, 'identity.key'), join(dir, 'identity.key'))
    const command = `[/bin/sh, -c, 'read -r task; echo "$task" >> "$0"; sleep 0.2; printf %s "$task"', '${runs}']`
    const agents = `agents:\n  - name: repeat\n    description: repeats its task\n    price: 0.01\n    command: ${command}\n`
    await writeFile(join(dir, 'agents.yaml'), agents)
  }
  const bootstrap = buyer.addresses().find((address) => address.startsWith('/ip4/127.0.0.1/tcp/'))!
  return {
    ...{ seller: peerId, account: privateKeyToAccount(key).address, address: database.address() },
    runs: async () => (await readFile(runs, 'utf8').catch(() => '')).split('\n').filter(Boolean),
    start: (name: Name) =>
      startNodeProcess({
        args: ['--data-dir', dirs[name], '--bootstrap', bootstrap],
        environment: {
          ETHEREUM_RPC_URL: devnet.rpcUrl,
          FACILITATOR_URL: devnet.facilitatorUrl,
          ETHEREUM_PRIVATE_KEY: key,
          DATABASE_URL: database.address(),
          STOA_TEST_SHARED: '1',
        },
      }),
  }
}

test('T5 T16 T17 processes of a seller that are killed under calls: no run twice, no call charged without its result', async () => {
  const shop = await openShop()
  const running = new Map<Name, NodeProcess>()
  for (const name of PROCESSES) running.set(name, await shop.start(name))
  const { id: agentId } = await discover(buyer, shop.seller, 'repeat', WAIT)
  const addresses = () => buyer.listings().find(({ id }) => id === agentId)!.addrs
  await until(() => [...running.values()].every(({ ready }) => addresses().includes(ready.addresses[0]!)), WAIT)

  const tasks = Array.from({ length: CALLS }, (_, index) => `task ${index}`)
  let ended = 0
  const call = async () => {
    for (let input = tasks.shift(); input !== undefined; input = tasks.shift()) {
      // What a call says is read from the books at the end.
      await buyer.execute({ agentId, input, signal: AbortSignal.timeout(120_000) }).catch(() => {})
      ended += 1
    }
  }
  const calls = Array.from({ length: AT_ONCE }, call)
  for (const [turn, name] of PROCESSES.entries()) {
    await until(() => ended >= (turn + 1) * 6, WAIT)
    const { child, exited } = running.get(name)!
    child.kill('SIGKILL')
    await exited
    running.set(name, await shop.start(name))
  }
  await Promise.all(calls)

  const orders = await allOrders()
  // What a dead process left is taken over, and the buyer learns what became of each payment.
  await until(async () => (await open(shop.address)) === 0, WAIT)
  await until(async () => (await allOrders()).every(({ status }) => status !== 'executing'), WAIT)
  const completed = (await allOrders()).filter(({ status }) => status === 'completed')
  const runs = await shop.runs()

  expect(orders).toHaveLength(CALLS)
  expect(new Set(runs).size).toBe(runs.length)
  for (const { task, output } of completed) expect(output).toBe(task)
  expect(completed.every(({ task }) => runs.includes(task!))).toBe(true)
  expect(await devnet.chain.balanceOf(shop.account)).toBe(PRICE * BigInt(completed.length))
  expect(completed.length).toBeGreaterThan(CALLS / 2)
}, 400_000)

async function allOrders(): Promise<OrderRecord[]> {
  return (await buyer.orders.list({ limit: 100 })).items
}

/** Payments of the seller that have not come to an end. */
async function open(address: string): Promise<number> {
  const states = all<{ n: number }>("SELECT count(*) AS n FROM payments WHERE state IN ('authorized', 'owed')")
  return (await askServer(address, states))[0]!.n
}
