/** Agents that run on other machines: a real seller and buyer, real worker processes, the real chain. */
import { randomInt, randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { Diagnosis } from '../../src/schema/diagnosis.ts'
import type { InvitedWorker, WorkerRecord } from '../../src/schema/worker.ts'
import { ask, call } from '../support/api-calls.ts'
import { discover, startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { begun, gone, hasEnded, slowProgram } from '../support/slow-agent.ts'
import { until } from '../support/until.ts'
import { killWorkerProcesses, startWorkerProcess, type WorkerProcess } from '../support/worker-process.ts'

const PRICE = 10_000n
const key = generatePrivateKey()
const payee = privateKeyToAccount(key).address
let devnet: Devnet
let seller: TestNode
let buyer: TestNode
let url: string
/** Where the slow program leaves its marks. */
let marks: string

/** Waits for a file that is named after its task, between two lines. */
const twoLines = `
  const { existsSync, readFileSync } = require('node:fs')
  const file = readFileSync(0, 'utf8')
  process.stdout.write('first line\\n')
  setInterval(() => {
    if (!existsSync(file)) return
    process.stdout.write('second line')
    process.exit(0)
  }, 20)`

beforeAll(async () => {
  devnet = await startDevnet()
  const chain = { rpcUrl: devnet.rpcUrl, facilitatorUrl: devnet.facilitatorUrl }
  seller = await startTestNode({ key, apiEnabled: true, ...chain })
  url = seller.apiUrl!
  const bootstrap = [seller.addresses().find((address) => address.includes('/tcp/'))!]
  buyer = await startTestNode({ key: devnet.wallets.buyer.privateKey, bootstrap, ...chain })
  marks = await testDir()
})
/** Agents of its own for each test: the workers of all tests come and go too often for one listing. */
let [slowName, linesName] = ['', '']
let round = 0
beforeEach(async () => {
  await killWorkerProcesses()
  round += 1
  ;[slowName, linesName] = [`slow ${round}`, `lines ${round}`]
  for (const name of [slowName, linesName]) {
    await seller.ownAgents.keep({ name, description: `${name} work`, price: PRICE, worker: true })
  }
})
afterAll(async () => {
  await killWorkerProcesses()
  await stopTestNodes()
  await devnet?.stop()
})

const invite = (body = {}) => ask<InvitedWorker>(url, '/workers', { body })
const workers = () => ask<WorkerRecord[]>(url, '/workers')
const stateOf = async (id: string) => (await workers()).find((worker) => worker.id === id)?.state
const slow = (ms: number) => [
  { name: slowName, description: 'x', price: 0, command: slowProgram(marks, ms) },
  { name: linesName, description: 'x', price: 0, command: [process.execPath, '-e', twoLines] },
]
const execute = (agentId: string, input: string, onOutput?: (text: string) => void) =>
  buyer
    .execute({
      ...{ agentId, input, signal: AbortSignal.timeout(60_000) },
      ...(onOutput && {
        onProgress: (progress) => {
          if (progress.type === 'output') onOutput(progress.data.text)
        },
      }),
    })
    .then(
      ({ output, payment }) => ({ output, amount: payment?.amount_atomic }),
      (error: { code?: string; message: string }) => ({ code: error.code, message: error.message }),
    )

async function startWorker(ms: number, runs = 1): Promise<WorkerProcess & { id: string }> {
  const { id, token } = await invite()
  const worker = await startWorkerProcess({ dataDir: await testDir(), token, agents: slow(ms), runs })
  await worker.joined()
  return { ...worker, id }
}

async function settled(): Promise<void> {
  await until(async () => (await seller.status()).settlement.pending === 0)
}

test('an agent is sold while a worker can run it, and its work is streamed and paid for once', async () => {
  expect(seller.listings()).toEqual([])
  const { id, token, ...invited } = await invite({ name: 'gpu-1' })
  expect(invited).toMatchObject({ name: 'gpu-1', state: 'invited', agents: [], running: 0 })
  const worker = await startWorkerProcess({ dataDir: await testDir(), token, agents: slow(10), runs: 2 })
  await worker.joined()
  const { id: agentId } = await discover(buyer, seller.peerId, linesName)
  const joined = { id, state: 'connected', agents: [slowName, linesName], runs_max: 2 }
  expect(await workers()).toContainEqual(expect.objectContaining(joined))
  expect(JSON.stringify(await workers())).not.toContain(token)

  const before = await devnet.chain.balanceOf(payee)
  const file = join(marks, `go on ${randomUUID()}`)
  let seen = ''
  const bought = await execute(agentId, file, (text) => {
    seen += text
    void writeFile(file, '')
  })
  expect(bought).toEqual({ output: 'first line\nsecond line', amount: '10000' })
  expect(seen).toMatch(/^first line\n/)
  await settled()
  expect((await devnet.chain.balanceOf(payee)) - before).toBe(PRICE)

  await worker.kill('SIGTERM')
  await until(() => seller.listings().length === 0)
  expect(await stateOf(id)).toBe('away')
  await until(() => buyer.listings().length === 0)
  expect(await execute(agentId, 'x')).toMatchObject({ code: 'UNKNOWN_AGENT' })
})

test('T34 a task whose worker is killed goes to another worker, and is charged once', async () => {
  const [first, second] = [await startWorker(5_000), await startWorker(5_000)]
  const { id: agentId } = await discover(buyer, seller.peerId, slowName)
  const before = await devnet.chain.balanceOf(payee)
  const task = `handed on ${randomInt(1e9)}`
  const bought = execute(agentId, task)
  await begun(marks, task)
  const busy = (await workers()).find(({ running }) => running === 1)!
  const doomed = busy.id === first.id ? first : second
  await doomed.kill('SIGKILL')
  expect(await bought).toEqual({ output: `slowly: ${task}`, amount: '10000' })
  await settled()
  expect((await devnet.chain.balanceOf(payee)) - before).toBe(PRICE)
})

test('T34 a task whose only worker is killed fails, and nobody is charged', async () => {
  const worker = await startWorker(60_000)
  const { id: agentId } = await discover(buyer, seller.peerId, slowName)
  const balances = () => Promise.all([payee, buyer.walletAddress].map((address) => devnet.chain.balanceOf(address)))
  const before = await balances()
  const task = `never done ${randomInt(1e9)}`
  const bought = execute(agentId, task)
  await begun(marks, task)
  await worker.kill('SIGKILL')
  expect(await bought).toMatchObject({ code: 'EXECUTION_FAILED' })
  await settled()
  expect(await balances()).toEqual(before)
  expect(hasEnded(marks, task)).toBe(false)
})

test('T34 a revoked worker is cut off at once and does not come back; its run is stopped', async () => {
  const worker = await startWorker(60_000)
  const { id: agentId } = await discover(buyer, seller.peerId, slowName)
  const task = `cut off ${randomInt(1e9)}`
  const bought = execute(agentId, task)
  const pid = await begun(marks, task)
  expect(await call(url, `/workers/${worker.id}`, { method: 'DELETE' })).toMatchObject({
    status: 200,
    body: { state: 'revoked' },
  })
  expect(await worker.exited).toEqual({ code: 4, signal: null })
  expect(worker.log()).toContain('revoked')
  await gone(pid)
  expect(await bought).toMatchObject({ code: 'EXECUTION_FAILED' })
  expect(await call(url, '/workers/nobody', { method: 'DELETE' })).toMatchObject({
    status: 404,
    body: { code: 'UNKNOWN_WORKER' },
  })
})

test('T34 a token serves one key: the same worker comes back, another one is refused', async () => {
  const { id, token } = await invite()
  const dataDir = await testDir()
  const first = await startWorkerProcess({ dataDir, token, agents: slow(10) })
  await first.joined()
  const other = await startWorkerProcess({ dataDir: await testDir(), token, agents: slow(10) })
  expect(await other.exited).toEqual({ code: 4, signal: null })
  expect(other.log()).toContain('another worker uses this join token')
  expect(other.log()).not.toContain(token)
  await first.kill('SIGKILL')
  const again = await startWorkerProcess({ dataDir, token, agents: slow(10) })
  await again.joined()
  expect(await stateOf(id)).toBe('connected')
})

test('a worker and its seller say which agents match none of the seller', async () => {
  const { token } = await invite({ name: 'gpu-9' })
  const misnamed = { ...slow(10)[0]!, name: 'slwo' }
  const worker = await startWorkerProcess({ dataDir: await testDir(), token, agents: [misnamed] })
  await worker.joined()
  await until(() => worker.log().includes('the seller has no such agent'))
  const { checks } = await ask<Diagnosis>(url, '/diagnosis')
  const found = checks.filter(({ state }) => state === 'warn' || state === 'fail')
  expect(found).toContainEqual(
    expect.objectContaining({ id: 'workers', text: expect.stringContaining('gpu-9 offers slwo: no agent') }),
  )
  expect(found).toContainEqual(
    expect.objectContaining({
      id: 'agents',
      text: expect.stringContaining(`${slowName}: `),
      fix: expect.stringMatching(/^run stoa worker/),
    }),
  )
})

test('the books name an agent by its name while no worker for it is connected', async () => {
  const worker = await startWorker(10)
  const { id } = await discover(buyer, seller.peerId, slowName)
  expect(await execute(id, 'a named picture')).toMatchObject({ amount: '10000' })
  await worker.kill('SIGKILL')
  await until(() => !seller.listings().some((listing) => listing.id === id))
  const named = async (path: string) => {
    const items = await ask<{ agent_id: string; agent_name?: string }[]>(url, path)
    return new Set(items.filter((item) => item.agent_id === id).map(({ agent_name }) => agent_name))
  }
  for (const path of ['/payments', '/executions', '/receipts']) expect(await named(path)).toEqual(new Set([slowName]))
})

test('a seller that keeps its agents listed when it stops keeps those of workers too', async () => {
  const chain = { rpcUrl: devnet.rpcUrl, facilitatorUrl: devnet.facilitatorUrl }
  const bootstrap = [buyer.addresses().find((address) => address.includes('/tcp/'))!]
  const keeper = await startTestNode({
    key: generatePrivateKey(),
    apiEnabled: true,
    keepListed: true,
    bootstrap,
    ...chain,
  })
  await keeper.ownAgents.keep({ name: slowName, description: 'slow work', price: PRICE, worker: true })
  const { token } = await ask<InvitedWorker>(keeper.apiUrl!, '/workers', { body: {} })
  const worker = await startWorkerProcess({ dataDir: await testDir(), token, agents: slow(10) })
  await worker.joined()
  const { id } = await discover(buyer, keeper.peerId, slowName)
  await keeper.stop()
  expect(buyer.listings().map((listing) => listing.id)).toContain(id)
})
