/** D38 ADR-27: an A2A task on which one process of a node works, asked for at another one. */
import { randomUUID } from 'node:crypto'
import { AgentCard, type StreamResponse, type Task } from '@a2a-js/sdk'
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
  const more = send('more', { messageId: randomUUID(), taskId: id })
  await expect(b.handler.sendMessage(more, as())).rejects.toThrow(/another process/)
  expect(stateOf(await a.handler.getTask(named(id), as()))).toBe('WORKING')
  await a.handler.cancelTask({ ...named(id), metadata: undefined }, as())
  expect(stateOf(await b.handler.getTask(named(id), as()))).toBe('CANCELED')
})

const follow = async (events: AsyncGenerator<StreamResponse, void, undefined>, shown: string[]) => {
  for await (const { payload } of events) {
    if (payload?.$case === 'task') shown.push(stateOf(payload.value))
    if (payload?.$case === 'artifactUpdate') shown.push(JSON.stringify(payload.value.artifact?.parts[0]?.content))
    if (payload?.$case === 'statusUpdate') shown.push(stateOf({ status: payload.value.status } as Task))
  }
}

test('it is followed from there to its end, by its caller and by one that sends its message again', async () => {
  const { a, b, answer, id, message } = await atWork()
  const [resubscribed, resent]: [string[], string[]] = [[], []]
  const ends = [
    follow(b.handler.resubscribe(named(id), as()), resubscribed),
    follow(b.handler.sendMessageStream(message, as()), resent),
  ]
  await until(() => resubscribed.length === 1 && resent.length === 1)
  a.gate.resolve(done)
  await answer
  await Promise.all(ends)
  const seen = ['WORKING', JSON.stringify({ $case: 'text', value: 'at last' }), 'COMPLETED']
  expect([resubscribed, resent]).toEqual([seen, seen])
})

test('T9 it is not followed by the caller of another token', async () => {
  const { b, id } = await atWork()
  const stranger: Caller = { scope: 'spend', tokenId: 'stranger' }
  await expect(Array.fromAsync(b.handler.resubscribe(named(id), as(stranger)))).rejects.toThrow(/not found/)
})

const listed = async ({ handler }: Process, caller?: Caller) => {
  const { tasks } = await handler.listTasks({ tenant: '', pageSize: 9 } as never, as(caller))
  return tasks.map((task) => [task.id, stateOf(task)])
}

test('it is in the list of each process, and in none of another token', async () => {
  const { a, b, answer, id } = await atWork()
  expect([await listed(a), await listed(b)]).toEqual([[[id, 'WORKING']], [[id, 'WORKING']]])
  a.gate.resolve(done)
  await answer
  expect([await listed(a), await listed(b)]).toEqual([[[id, 'COMPLETED']], [[id, 'COMPLETED']]])
  expect(await listed(b, { scope: 'spend', tokenId: 'stranger' })).toEqual([])
})

/** A task whose caller is asked to pay, by the first process. */
async function atRest() {
  const shop = await atWork()
  const { a, b, answer, id } = shop
  const metadata = { 'x402.payment.required': { amount: '1' } }
  a.gate.resolve({ kind: 'input-required', text: 'pay', metadata })
  expect(stateOf(asTask(await answer))).toBe('INPUT_REQUIRED')
  b.gate.resolve(done)
  const pay = (messageId = randomUUID()) => send('paid', { messageId, taskId: id })
  return { ...shop, metadata, pay }
}

test('a task that waits for its caller is told everywhere with what it waits for, and is one task', async () => {
  const { b, message, id, metadata } = await atRest()
  const asked = await b.handler.getTask(named(id), as())
  expect([stateOf(asked), asked.status?.message?.metadata]).toEqual(['INPUT_REQUIRED', metadata])
  const again = asTask(await b.handler.sendMessage(message, as()))
  expect([again.id, stateOf(again), again.status?.message?.metadata]).toEqual([id, 'INPUT_REQUIRED', metadata])
  expect([await listed(b), b.runs]).toEqual([[[id, 'INPUT_REQUIRED']], []])
  const stranger: Caller = { scope: 'spend', tokenId: 'stranger' }
  await expect(b.handler.getTask(named(id), as(stranger))).rejects.toThrow(/not found/)
})

test('what its caller sends to another process is worked on there, and told by both', async () => {
  const { a, b, id, pay } = await atRest()
  const task = asTask(await b.handler.sendMessage(pay(), as()))
  expect([task.id, stateOf(task), resultOf(task)]).toEqual([id, 'COMPLETED', 'at last'])
  // With the text of its first message.
  expect([a.runs, b.runs]).toEqual([['a task'], ['a task']])
  const told = await a.handler.getTask(named(id), as())
  expect([stateOf(told), resultOf(told)]).toEqual(['COMPLETED', 'at last'])
  await expect(a.handler.sendMessage(pay(), as())).rejects.toThrow(/terminal|completed/i)
  expect(await listed(a)).toEqual([[id, 'COMPLETED']])
})

test('it is canceled at any process, and stays so', async () => {
  const { a, b, id, pay } = await atRest()
  expect(stateOf(await b.handler.cancelTask({ ...named(id), metadata: undefined }, as()))).toBe('CANCELED')
  expect(stateOf(await a.handler.getTask(named(id), as()))).toBe('CANCELED')
  await expect(a.handler.sendMessage(pay(), as())).rejects.toThrow(/terminal|cancel/i)
})
