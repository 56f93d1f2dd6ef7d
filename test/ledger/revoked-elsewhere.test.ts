/** T34: a worker is revoked at one process of a seller while it is connected to another. */
import { randomBytes } from 'node:crypto'
import type { Stream } from '@libp2p/interface'
import { streamPair } from '@libp2p/utils'
import { expect, onTestFinished, test } from 'vitest'
import { createTail } from '../../src/ledger/tail.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createWorkers } from '../../src/node/workers.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createChangeLog } from '../../src/store/postgres/change-log.ts'
import { createWorkerStore } from '../../src/store/workers.ts'
import { readJoinToken } from '../../src/workers/join-token.ts'
import { WorkerPool } from '../../src/workers/worker-pool.ts'
import { createWorkerRoll } from '../../src/workers/worker-roll.ts'
import { HandClock } from '../support/hand-clock.ts'
import { openShared } from '../support/ledgers.ts'
import { until } from '../support/until.ts'
import { openWorkshop, ScriptedWorker, task } from '../support/workshop.ts'

const body = (text: string) => Buffer.from(text).toString('base64')

/** The roll of another process, to which no worker is connected. */
function rollOf(ledger: LedgerDatabase) {
  return createWorkerRoll({
    ...{
      clock: new HandClock(),
      pool: new WorkerPool({ clock: new HandClock(), logger: silentLogger }),
      store: createWorkerStore(ledger),
    },
    ...{
      random: randomBytes,
      peerId: 'seller',
      process: ledger.process,
      addresses: async () => [],
      elsewhere: async () => [],
    },
  })
}

test('T34 a worker that another process has revoked gets no further task, and is cut off', async () => {
  const [here, elsewhere] = await openShared(2)
  const shop = await openWorkshop({ ledger: here! })
  const worker = await shop.joined()
  const first = shop.pool.run('paint', task('a tree'))
  await worker.send('work.result', { run: await worker.task(), body: body('a painted tree') })
  expect(await first).toBe('a painted tree')
  await rollOf(elsewhere!).revoke(shop.pool.links()[0]!.worker.id)
  shop.clock.advance(1_000)
  const honest = await shop.joined()
  const second = shop.pool.run('paint', task('a house'))
  expect(await worker.next()).toMatchObject({ type: 'work.refused', message: { code: 'REVOKED' } })
  await honest.send('work.result', { run: await honest.task(), body: body('a painted house') })
  expect(await second).toBe('a painted house')
})

test('T34 no task is handed over while the ledger cannot be asked about its worker', async () => {
  const [here] = await openShared(1)
  let isAway = false
  const query: LedgerDatabase['query'] = async (asked) => {
    if (isAway) throw new Error('the ledger is away')
    return here!.query(asked)
  }
  const shop = await openWorkshop({ ledger: { ...here!, query } })
  const worker = await shop.joined()
  shop.clock.advance(1_000)
  isAway = true
  await expect(shop.pool.run('paint', task('a tree'))).rejects.toMatchObject({
    message: expect.stringContaining('cannot read its ledger'),
  })
  isAway = false
  const next = shop.pool.run('paint', task('a house'))
  await worker.send('work.result', { run: await worker.task(), body: body('a painted house') })
  expect(await next).toBe('a painted house')
})

test('T34 a revocation reaches the process to which the worker is connected, and stops its run', async () => {
  const [here, elsewhere] = await openShared(2)
  const pool = new WorkerPool({ clock: new HandClock(), logger: silentLogger, awayMs: 1 })
  const tail = createTail({ log: createChangeLog(here!), logger: silentLogger })
  let open: ((stream: Stream, peerId: string) => void) | undefined
  const host = {
    addresses: () => [],
    siteOf: () => undefined,
    handle: async (_protocol: string, handler: typeof open) => {
      open = handler
    },
  }
  const limits = { openStream: () => () => {}, holdBytes: () => true }
  const nobody = { alive: [], ended: [], roles: [] }
  const { doors, roll } = createWorkers({
    ...{ database: here!, clock: new HandClock(), logger: silentLogger, random: randomBytes, tail, workers: pool },
    ...{ identity: { peerId: 'seller' }, host, slots: { idle: async () => {} } },
    ...{ fleet: { sight: () => nobody, look: async () => nobody }, siblings: { onAddressesChange() {} } },
    selling: { agents: { followWorkers: async () => {} }, registry: { list: () => [] }, x402: { limits } },
  } as unknown as Parameters<typeof createWorkers>[0])
  const [door] = doors
  await tail.start()
  await door!.start()
  onTestFinished(async () => {
    await door!.stop()
    await tail.stop()
  })
  const { id, token } = await rollOf(elsewhere!).invite({})
  const [near, far] = await streamPair({ protocol: '/stoa/work/1.0.0' })
  open!(far, 'worker')
  const worker = new ScriptedWorker(near, 'worker')
  expect(await worker.join({ id, secret: readJoinToken(token).secret })).toMatchObject({ type: 'work.welcome' })
  const run = pool.run('paint', task('a tree'))
  run.catch(() => {})
  await worker.task()
  expect(roll.knows('worker')).toBe(true)
  await rollOf(elsewhere!).revoke(id)
  expect(await worker.refusal()).toBe('REVOKED')
  await expect(run).rejects.toMatchObject({ code: 'AGENT_NOT_RUNNABLE' })
  // Its own look may find the revocation first.
  await until(() => !roll.knows('worker'))
})
