/** D38 ADR-27: an A2A task on which one process of a node works, asked for at another one. */
import { randomUUID } from 'node:crypto'
import { AgentCard } from '@a2a-js/sdk'
import { ServerCallContext } from '@a2a-js/sdk/server'
import { expect, onTestFinished, test } from 'vitest'
import { agentCard } from '../../src/a2a/cards.ts'
import { createExecutor, type Outcome } from '../../src/a2a/executor.ts'
import { createRequestHandler } from '../../src/a2a/request-handler.ts'
import { SentMessages } from '../../src/a2a/sent-messages.ts'
import { A2aTasks, CALLER_KEY } from '../../src/a2a/tasks.ts'
import { createTail } from '../../src/ledger/tail.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { a2aCaller, type Caller, OPERATOR } from '../../src/schema/caller.ts'
import { createExchanges } from '../../src/store/exchanges.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createChangeLog } from '../../src/store/postgres/change-log.ts'
import { createSentMessageStore } from '../../src/store/sent-messages.ts'
import { createTaskRecords } from '../../src/store/task-records.ts'
import { asTask, resultOf, send, stateOf } from '../support/a2a-client.ts'
import { listingFixture } from '../support/fake-api.ts'
import { openShared } from '../support/ledgers.ts'
import { until } from '../support/until.ts'

const listing = listingFixture({ price: 0n, local: true })
const card = AgentCard.fromJSON(agentCard(listing, '', { version: '1', did: listing.seller_did, needsToken: false }))

/** A process whose agent works until `gate` opens. */
async function processOn(ledger: LedgerDatabase) {
  const gate = Promise.withResolvers<Outcome>()
  const runTime = { now: () => 1_000, save: async () => {} }
  const messages = createSentMessageStore(ledger, runTime)
  const exchanges = createExchanges(ledger)
  const tasks = new A2aTasks({ records: createTaskRecords(ledger), messages })
  const runs: string[] = []
  const executor = createExecutor({
    ...{ clock: systemClock, logger: silentLogger, tasks, extensions: [], messages, rest: messages.rest },
    async work({ input, ids, signal }, progress) {
      runs.push(input)
      progress.working()
      const stopped = new Promise<Outcome>((resolve) => {
        signal.addEventListener('abort', () => resolve({ kind: 'canceled', text: 'canceled' }))
      })
      const outcome = await Promise.race([gate.promise, stopped])
      if (outcome.kind !== 'completed') return outcome
      const callerId = a2aCaller(undefined, ids.contextId)
      const ran = { agentId: listing.id, callerId, correlationId: ids.taskId, input, output: String(outcome.output) }
      await exchanges.record({ ...ran, createdAt: systemClock.now(), durationMs: 1 })
      return outcome
    },
  })
  const sent = new SentMessages({ messages, runTime })
  const tail = createTail({ log: createChangeLog(ledger), logger: silentLogger })
  tail.listen({
    changed({ record, id }) {
      const running = record === 'task' ? tasks.running(id) : undefined
      if (running !== undefined) tasks.cancel(running)
    },
    missed() {},
  })
  await tail.start()
  onTestFinished(() => tail.stop())
  return { ...{ gate, runs, tasks }, handler: createRequestHandler(listing.id, card, { tasks, executor, sent }) }
}

const as = (caller: Caller = OPERATOR) => new ServerCallContext({ state: new Map([[CALLER_KEY, caller]]) })
const named = (id: string) => ({ tenant: '', id, historyLength: undefined })

type Process = Awaited<ReturnType<typeof processOn>>

/** Two processes, and a task on which the first works. */
async function atWork() {
  const [a, b] = (await Promise.all((await openShared(2)).map(processOn))) as [Process, Process]
  const message = send('a task', { messageId: randomUUID() })
  const answer = a.handler.sendMessage(message, as())
  onTestFinished(async () => {
    a.tasks.abortAll(new Error('the test is over'))
    await answer.catch(() => {})
  })
  await until(() => a.runs.length === 1)
  const { tasks } = await a.handler.listTasks({ tenant: '', pageSize: 9 } as never, as())
  return { a, b, message, answer, id: tasks[0]!.id }
}

const done: Outcome = { kind: 'completed', output: 'at last' }

test('it is told as working, and then with its result', async () => {
  const { a, b, answer, id } = await atWork()
  expect(stateOf(await b.handler.getTask(named(id), as()))).toBe('WORKING')
  a.gate.resolve(done)
  await answer
  const task = await b.handler.getTask(named(id), as())
  expect([stateOf(task), resultOf(task)]).toEqual(['COMPLETED', 'at last'])
})

test('T9 the task of one token is not told to another', async () => {
  const { b, id } = await atWork()
  const stranger: Caller = { scope: 'spend', tokenId: 'stranger' }
  await expect(b.handler.getTask(named(id), as(stranger))).rejects.toThrow(/not found/)
})

test('D38 the same message sent to the other process makes no second run, and gets the result', async () => {
  const { a, b, message, id } = await atWork()
  const again = b.handler.sendMessage(message, as())
  await until(async () => (await b.tasks.elsewhere(listing.id, id, OPERATOR)) !== undefined)
  a.gate.resolve(done)
  const task = asTask(await again)
  expect([task.id, resultOf(task)]).toEqual([id, 'at last'])
  expect([a.runs, b.runs]).toEqual([['a task'], []])
})

test('it is canceled from there', async () => {
  const { a, b, answer, id } = await atWork()
  expect(stateOf(await b.handler.cancelTask({ ...named(id), metadata: undefined }, as()))).toBe('CANCELED')
  expect(stateOf(asTask(await answer))).toBe('CANCELED')
  expect(a.tasks.running(id)).toBeUndefined()
})

test('T9 it is not canceled for the caller of another token', async () => {
  const { a, b, id } = await atWork()
  const stranger: Caller = { scope: 'spend', tokenId: 'stranger' }
  await expect(b.handler.cancelTask({ ...named(id), metadata: undefined }, as(stranger))).rejects.toThrow(/not found/)
  expect(a.tasks.running(id)?.isCanceled).toBe(false)
})

test('one that ends before its cancellation is told as ended', async () => {
  const { a, b, answer, id } = await atWork()
  a.tasks.running(id)!.canCancel = false
  const canceling = b.handler.cancelTask({ ...named(id), metadata: undefined }, as())
  canceling.catch(() => {})
  a.gate.resolve(done)
  await answer
  await expect(canceling).rejects.toThrow(/ended before it could be canceled|cannot be canceled|not cancelable/i)
  expect(resultOf(await b.handler.getTask(named(id), as()))).toBe('at last')
})

test('its caller hears there what to do', async () => {
  const { a, b, id } = await atWork()
  await expect(Array.fromAsync(b.handler.resubscribe(named(id), as()))).rejects.toThrow(/ask for it with tasks\/get/)
  const more = send('more', { messageId: randomUUID(), taskId: id })
  await expect(b.handler.sendMessage(more, as())).rejects.toThrow(/another process/)
  expect(stateOf(await a.handler.getTask(named(id), as()))).toBe('WORKING')
  await a.handler.cancelTask({ ...named(id), metadata: undefined }, as())
  expect(stateOf(await b.handler.getTask(named(id), as()))).toBe('CANCELED')
})

test('a task that waits for its caller is not told as working', async () => {
  const { a, b, answer, id } = await atWork()
  a.gate.resolve({ kind: 'input-required', text: 'pay' })
  expect(stateOf(asTask(await answer))).toBe('INPUT_REQUIRED')
  await expect(b.handler.getTask(named(id), as())).rejects.toThrow(/not found/)
})
