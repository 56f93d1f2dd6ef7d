/** ADR-38: two processes of a seller, each with a worker for one task at a time, and a buyer that is connected to one of them. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { InvitedWorker, WorkerRecord } from '../../src/schema/worker.ts'
import { readJoinToken, writeJoinToken } from '../../src/workers/join-token.ts'
import { ask } from '../support/api-calls.ts'
import { useBuyerMarket } from '../support/buyer-market.ts'
import { discover, testDir } from '../support/loopback-node.ts'
import type { NodeProcess } from '../support/node-process.ts'
import { openSellerProcesses } from '../support/seller-processes.ts'
import { begun } from '../support/slow-agent.ts'
import { until } from '../support/until.ts'
import { startWorkerProcess } from '../support/worker-process.ts'

const WAIT = { timeoutMs: 60_000, everyMs: 50 }
const market = useBuyerMarket()

/** Notes that it has begun, and ends when the test lets it. */
const program = (marks: string) => `
  const { existsSync, readFileSync, writeFileSync } = require('node:fs')
  const task = readFileSync(0, 'utf8')
  writeFileSync(${JSON.stringify(`${marks}/begun `)} + task, String(process.pid))
  setInterval(() => {
    if (!existsSync(${JSON.stringify(join(marks, 'go'))})) return
    process.stdout.write('painted ' + task)
    process.exit(0)
  }, 20)`

test.each([
  ['free', 0],
  ['paid', 0.01],
])('a call of a %s agent goes to the process with a free worker, and waits where all are busy', async (_, price) => {
  const painter = { name: `painter for ${price}`, description: 'paints', price, worker: true }
  const shop = await openSellerProcesses(() => [painter], market)
  const processes = [await shop.start('a'), await shop.start('b')]
  const agents = [{ ...painter, price: 0, worker: undefined, command: [process.execPath, '-e', program(shop.marks)] }]
  const join = async ({ ready }: NodeProcess) => {
    const { token } = await ask<InvitedWorker>(ready.api_url, '/workers', { body: {} })
    // A worker begins at any of the addresses: this one at its process.
    const own = writeJoinToken({ ...readJoinToken(token), addrs: ready.addresses })
    await (await startWorkerProcess({ dataDir: await testDir(), token: own, agents })).joined()
  }
  for (const one of processes) await join(one)
  const api = processes[0]!.ready.api_url
  const records = () => ask<WorkerRecord[]>(api, '/workers')
  await until(async () => new Set((await records()).flatMap((one) => one.processes ?? [])).size === 2, WAIT)
  const { id } = await discover(market.buyer, shop.seller, painter.name, WAIT)
  const call = async (input: string) =>
    (await market.buyer.execute({ agentId: id, input, signal: AbortSignal.timeout(100_000) })).output
  const calls = [call('one')]
  await begun(shop.marks, 'one')
  // Each process has heard of the other that its worker is free, or busy.
  await until(async () => (await records()).reduce((sum, { running }) => sum + running, 0) === 1, WAIT)
  calls.push(call('two'))
  await begun(shop.marks, 'two')
  await until(async () => (await records()).reduce((sum, { running }) => sum + running, 0) === 2, WAIT)
  calls.push(call('three'))
  await until(async () => (await market.buyer.status()).connected_peers > 0, WAIT)
  await writeFile(`${shop.marks}/go`, '')
  expect(await Promise.all(calls)).toEqual(['painted one', 'painted two', 'painted three'])
})

test.each([
  ['free', 0],
  ['paid', 0.01],
])('a call of a %s agent whose worker is revoked while it runs is run at the other process', async (_, price) => {
  const painter = { name: `careful painter for ${price}`, description: 'paints', price, worker: true }
  const shop = await openSellerProcesses(() => [painter], market)
  const processes = [await shop.start('a'), await shop.start('b')]
  const agents = [{ ...painter, price: 0, worker: undefined, command: [process.execPath, '-e', program(shop.marks)] }]
  for (const { ready } of processes) {
    const { token } = await ask<InvitedWorker>(ready.api_url, '/workers', { body: {} })
    const own = writeJoinToken({ ...readJoinToken(token), addrs: ready.addresses })
    await (await startWorkerProcess({ dataDir: await testDir(), token: own, agents })).joined()
  }
  const api = processes[0]!.ready.api_url
  const records = () => ask<WorkerRecord[]>(api, '/workers')
  await until(async () => new Set((await records()).flatMap((one) => one.processes ?? [])).size === 2, WAIT)
  const { id } = await discover(market.buyer, shop.seller, painter.name, WAIT)
  const call = market.buyer.execute({ agentId: id, input: 'one', signal: AbortSignal.timeout(100_000) })
  const begunAt = async () => readFile(`${shop.marks}/begun one`, 'utf8').catch(() => '')
  const first = await until(begunAt, WAIT)
  const busy = await until(async () => (await records()).find(({ running }) => running === 1), WAIT)
  await ask(api, `/workers/${busy.id}`, { method: 'DELETE' })
  await until(async () => !['', first].includes(await begunAt()), WAIT)
  await writeFile(`${shop.marks}/go`, '')
  const { output, payment } = await call
  expect(output).toBe('painted one')
  if (price === 0) return
  // One payment, of which the chain shows one transfer.
  expect(payment).toMatchObject({ amount_atomic: '10000' })
  await until(async () => (await market.devnet.chain.balanceOf(shop.account)) === 10_000n, WAIT)
})
