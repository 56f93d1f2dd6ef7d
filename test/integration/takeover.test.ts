/** Two processes of a seller: the second goes on where the first was killed or froze. */
import { randomInt } from 'node:crypto'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { usdcEvents } from '../../devnet/chain.ts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { all } from '../../src/store/query.ts'
import { askServer } from '../support/ledger-engine.ts'
import { localAddress } from '../support/loopback.ts'
import { discover, startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { createTestDatabase, type TestDatabase } from '../support/test-postgres.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
const FUNDS = 1_000_000n
/** A lease of 20 s, and a start on busy cores. */
const TAKEOVER_MS = 60_000
const ENDED = all<{ n: number }>('SELECT count(*) AS n FROM processes WHERE ended_at IS NOT NULL')
let devnet: Devnet
let other: TestNode

beforeAll(async () => {
  devnet = await startDevnet()
  const key = devnet.wallets.buyer.privateKey
  const { rpcUrl, facilitatorUrl } = devnet
  other = await startTestNode({ key, rpcUrl, facilitatorUrl, dailyBudgetAtomic: 10_000_000n })
})
afterAll(async () => {
  await killNodeProcesses()
  await stopTestNodes()
  await devnet.stop()
})

/** A shop that two processes keep, each with a directory of its own. */
class Shop {
  readonly #key = generatePrivateKey()
  readonly account = privateKeyToAccount(this.#key).address
  readonly #dirs: [string, string]
  readonly runs: string
  readonly #database: TestDatabase

  constructor(dirs: [string, string], database: TestDatabase) {
    this.#dirs = dirs
    this.runs = join(dirs[0], 'runs')
    this.#database = database
  }

  /** The agent `repeat` leaves a line in `runs` for each run. */
  async open(): Promise<void> {
    await devnet.fund(this.account, FUNDS)
    const command = `[/bin/sh, -c, 'echo run >> "$0"; cat', '${this.runs}']`
    const agents = `agents:\n  - name: repeat\n    description: repeats its task\n    price: 0.01\n    command: ${command}\n`
    await Promise.all(this.#dirs.map((dir) => writeFile(join(dir, 'agents.yaml'), agents)))
  }

  start(process: 0 | 1, faultPoint?: string): Promise<NodeProcess> {
    const bootstrap = localAddress(other.addresses())
    return startNodeProcess({
      faultPoint,
      args: ['--data-dir', this.#dirs[process], '--bootstrap', bootstrap],
      environment: {
        ETHEREUM_RPC_URL: devnet.rpcUrl,
        FACILITATOR_URL: devnet.facilitatorUrl,
        ETHEREUM_PRIVATE_KEY: this.#key,
        DATABASE_URL: this.#database.address(),
      },
    })
  }

  /** Both processes have one identity, made by the first. */
  async share(): Promise<void> {
    await copyFile(join(this.#dirs[0], 'identity.key'), join(this.#dirs[1], 'identity.key'))
  }

  /** How many processes of this ledger have ended. */
  async ended(): Promise<number> {
    const [row] = await askServer(this.#database.address(), ENDED)
    return row!.n
  }
}

async function openShop(): Promise<Shop> {
  const shop = new Shop([await testDir(), await testDir()], await createTestDatabase())
  await shop.open()
  return shop
}

test('T16: a seller and buyer killed by SIGKILL is taken over, and what it owes and has bought comes to its end once', async () => {
  const shop = await openShop()
  // A name of its own, also when the test is tried again.
  const name = `slow ${randomInt(1e9)}`
  const slowRuns = join(other.dataDir, name)
  const command = ['/bin/sh', '-c', 'echo run >> "$0"; sleep 2; cat', slowRuns]
  const { id: slow } = await other.registerAgent({ name, description: 'takes time', price: PRICE, command })

  const first = await shop.start(0, 'seller:owed')
  await shop.share()
  await until(() => agentAt(first, name))
  const order = (await post(`${first.ready.api_url}/orders`, {
    agent_id: slow,
    price: 0.01,
    task: 'bought by the first',
  })) as { id: string }
  await until(async () => (await linesOf(slowRuns)) === 1, { everyMs: 20 })
  const { id: repeat } = await discover(other, first.ready.peer_id, 'repeat')
  const bought = other.execute({ agentId: repeat, input: 'sold by the first', signal: AbortSignal.timeout(90_000) })
  bought.catch(() => {})
  expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })

  const second = await shop.start(1)
  expect(second.ready.peer_id).toBe(first.ready.peer_id)
  expect(await bought).toMatchObject({ output: 'sold by the first', payment: { amount_atomic: '10000' } })
  const orderNow = () => get(second, `/orders/${order.id}`) as Promise<{ status: string; output?: string }>
  await until(async () => (await orderNow()).status === 'completed', { timeoutMs: TAKEOVER_MS, everyMs: 100 })
  expect((await orderNow()).output).toBe('bought by the first')
  const settled = async (node: NodeProcess) =>
    ((await get(node, '/status')) as { settlement: { pending: number } }).settlement.pending === 0
  await until(() => settled(second), { everyMs: 100 })
  await until(async () => (await other.status()).settlement.pending === 0, { everyMs: 100 })

  expect([await linesOf(shop.runs), await linesOf(slowRuns)]).toEqual([1, 1])
  expect(await devnet.chain.balanceOf(shop.account)).toBe(FUNDS + PRICE - PRICE)
  expect(await transfersTo(shop.account)).toBe(2) // what it was funded with, and what it sold
  expect(await authorizationsUsedBy(shop.account)).toBe(1)
  await second.stop()
})

test('a process that froze finds its work taken over when it goes on: it stops, and the agents stay on the market', async () => {
  const shop = await openShop()
  const first = await shop.start(0)
  await shop.share()
  await discover(other, first.ready.peer_id, 'repeat')
  const second = await shop.start(1)
  await until(() => agentAt(second, 'repeat'))
  first.child.kill('SIGSTOP')
  await until(async () => (await shop.ended()) === 1, { timeoutMs: TAKEOVER_MS, everyMs: 100 })
  first.child.kill('SIGCONT')
  expect(await first.exited).toEqual({ code: 1, signal: null })
  expect(first.log()).toMatch(/others have taken over .*Start this node again/)
  const { id } = await discover(other, second.ready.peer_id, 'repeat')
  const { output } = await other.execute({ agentId: id, input: 'still there', signal: AbortSignal.timeout(60_000) })
  expect([output, await linesOf(shop.runs)]).toEqual(['still there', 1])
  await second.stop()
})

async function linesOf(path: string): Promise<number> {
  return (await readFile(path, 'utf8').catch(() => '')).split('\n').filter(Boolean).length
}

async function get({ ready }: NodeProcess, path: string): Promise<unknown> {
  return (await fetch(`${ready.api_url}${path}`)).json()
}

async function agentAt(node: NodeProcess, name: string): Promise<string | undefined> {
  return ((await get(node, '/agents')) as { id: string; name: string }[]).find((agent) => agent.name === name)?.id
}

async function post(url: string, body: unknown): Promise<unknown> {
  const headers = { 'content-type': 'application/json' }
  return (await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })).json()
}

async function authorizationsUsedBy(authorizer: Hex): Promise<number> {
  return (
    await devnet.chain.client.getLogs({ event: usdcEvents.authorizationUsed, args: { authorizer }, fromBlock: 0n })
  ).length
}

async function transfersTo(to: Hex): Promise<number> {
  return (await devnet.chain.client.getLogs({ event: usdcEvents.transfer, args: { to }, fromBlock: 0n })).length
}
