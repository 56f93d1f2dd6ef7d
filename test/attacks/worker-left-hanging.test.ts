/** T34: tasks and workers that are left hanging by the other side. The limits of the runs here are an hour: none of them may decide. */
import { streamPair } from '@libp2p/utils'
import { expect, onTestFinished, test } from 'vitest'
import { silentLogger } from '../../src/lib/logger.ts'
import { openDatabase } from '../../src/store/database.ts'
import { workFor } from '../../src/workers/work-for.ts'
import { openWorkerAgents } from '../../src/workers/worker-agents.ts'
import { until } from '../support/until.ts'
import { openWorkshop, task } from '../support/workshop.ts'

const body = (text: string) => Buffer.from(text).toString('base64')
const long = { timeoutSeconds: 3_600 }

test('T34 a worker that ends its side while it has a task loses the task to another at once', async () => {
  const shop = await openWorkshop()
  const first = await shop.joined()
  const result = shop.pool.run('paint', task('a tree', long))
  await first.task()
  const second = await shop.joined()
  await first.stream.close()
  await second.send('work.result', { run: await second.task(), body: body('a tree') })
  expect(await result).toBe('a tree')
  expect(shop.pool.links()).toHaveLength(1)
})

test('T34 a worker that joins while the ledger does not answer is heard: its task ends with its answer', async () => {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  let reads = Number.NEGATIVE_INFINITY
  const query: typeof database.query = async (wanted) => {
    // It is admitted. The door then asks whether it may stay, and is not answered. The pool asks the same, and is.
    if (++reads === 2) return new Promise(() => {})
    return database.query(wanted)
  }
  const shop = await openWorkshop({ ledger: { ...database, query } })
  const worker = await shop.peer()
  const invitation = await shop.invite()
  reads = 0
  await worker.join(invitation)
  const result = shop.pool.run('paint', task('a tree', long))
  await worker.send('work.result', { run: await worker.task(), body: body('a tree') })
  expect(await result).toBe('a tree')
  const lost = shop.pool.run('paint', task('a house', long)).catch(({ code }) => code)
  await worker.task()
  const other = await shop.joined()
  worker.stream.abort(new Error('killed'))
  await other.send('work.failed', { run: await other.task(), code: 'AGENT_FAILED', message: 'no paint' })
  expect(await lost).toBe('AGENT_FAILED')
})

test('T34 a task that is given up while the ledger is asked about its worker ends at once', async () => {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  let isSilent = false
  let asked = 0
  const query: typeof database.query = async (wanted) => {
    if (!isSilent) return database.query(wanted)
    asked += 1
    return new Promise(() => {})
  }
  const shop = await openWorkshop({ ledger: { ...database, query } })
  await shop.joined()
  shop.clock.advance(10_000)
  isSilent = true
  const leaving = new AbortController()
  const result = shop.pool.run('paint', task('a tree', { ...long, signal: leaving.signal }))
  await until(() => asked > 0)
  leaving.abort(new Error('the caller has left'))
  await expect(result).rejects.toMatchObject({ code: 'AGENT_CANCELLED' })
  expect(shop.pool.links().map(({ running }) => running)).toEqual([0])
})

test('T34 a worker that a seller leaves without an answer tries again', async () => {
  const agents = await openWorkerAgents([], { createRuntime: () => Promise.reject(), logger: silentLogger })
  const leaving = new AbortController()
  let dials = 0
  const dial = async () => {
    const [near, far] = await streamPair({ protocol: '/stoa/work/1.0.0' })
    onTestFinished(() => far.abort(new Error('the test is over')))
    dials += 1
    if (dials === 3) leaving.abort(new Error('enough'))
    return near
  }
  const deps = { agents, logger: silentLogger, dial, onWelcome: () => {}, onAddresses: () => {} }
  const retry = { firstMs: 1, mostMs: 1 }
  await workFor({ id: 'x', secret: 'y', runsMax: 1, welcomeMs: 10 }, { ...deps, retry }, leaving.signal)
  expect(dials).toBe(3)
})
