import { type Task, TaskState } from '@a2a-js/sdk'
import { expect, test } from 'vitest'
import { message } from '../../test/support/a2a-client.ts'
import { shortest } from '../../test/support/shortest.ts'
import { A2A_CALLER, a2aCaller, STRANGER, strangerWith } from '../schema/caller.ts'
import type { TaskRecord } from '../store/task-records.ts'
import { resultArtifact, statusOf } from './task-events.ts'
import { A2aTasks, CALLER_KEY } from './tasks.ts'

const hash = `0x${'ab'.repeat(32)}` as const
const context = {} as never
function task(id: string, { text = 'result', metadata = {} as Record<string, unknown> } = {}): Task {
  const ids = { taskId: id, contextId: 'c' }
  const status = statusOf(TaskState.TASK_STATE_COMPLETED, ids, 0, { metadata })
  return { id, contextId: 'c', status, artifacts: [resultArtifact(text)], history: [], metadata: undefined }
}
const record: TaskRecord = {
  agentId: 'a',
  callerId: `${A2A_CALLER}c`,
  taskId: 'old',
  input: 'task',
  output: 'result',
  error: undefined,
  endedAt: 0,
  payment: { state: 'settled', network: 'eip155:84532', payer: `0x${'11'.repeat(20)}`, txHash: hash },
}
const none = { find: async () => undefined }

test('T19 the longest untouched tasks give way, and their followers are told', async () => {
  const tasks = new A2aTasks({ records: none })
  const store = tasks.of('a')
  await store.save(task('first'), context)
  let ended = false
  tasks.createOrGetByTaskId('first').on('finished', () => {
    ended = true
  })
  for (let i = 0; i < 2_000; i++) await store.save(task(`t${i}`), context)
  expect(await store.load('first', context)).toBeUndefined()
  expect(await store.load('t0', context)).toBeDefined()
  expect([ended, tasks.getByTaskId('first')]).toEqual([true, undefined])
})

test('T19 they are bounded in bytes too, and a task that runs stays', async () => {
  const tasks = new A2aTasks({ records: none })
  const store = tasks.of('a')
  tasks.start('running', { controller: new AbortController(), canCancel: true, isCanceled: false, bytes: 1 })
  await store.save(task('running', { text: 'x'.repeat(4e6) }), context)
  for (let i = 0; i < 10; i++) await store.save(task(`t${i}`, { text: 'x'.repeat(4e6) }), context)
  expect(await store.load('running', context)).toBeDefined()
  expect(await store.load('t0', context)).toBeUndefined()
  expect(await store.load('t9', context)).toBeDefined()
  tasks.end('running')
  for (let i = 0; i < 10; i++) await store.save(task(`u${i}`, { text: 'x'.repeat(4e6) }), context)
  expect(await store.load('running', context)).toBeUndefined()
})

test('T42 short tasks of others do not give way to long ones', async () => {
  const tasks = new A2aTasks({ records: none })
  const store = tasks.of('a')
  await store.save(task('short'), context)
  for (let i = 0; i < 20; i++) await store.save(task(`t${i}`, { text: 'x'.repeat(4e6) }), context)
  expect(await store.load('short', context)).toBeDefined()
  expect(await store.load('t0', context)).toBeUndefined()
})

test('T31 a long task that is asked for again and again is not copied', async () => {
  const tasks = new A2aTasks({ records: none })
  const store = tasks.of('a')
  const text = '\u4e00'.repeat(4e6)
  await store.save(task('long', { text }), context)
  const loads = await shortest(async () => {
    for (let i = 0; i < 100; i++) await store.load('long', context)
  })
  expect(loads).toBeLessThan(await shortest(async () => Buffer.from(text)))
})

test('a task is its agent’s alone, and a copy: what callers do to it changes nothing', async () => {
  const tasks = new A2aTasks({ records: none })
  await tasks.of('a').save(task('t'), context)
  expect(await tasks.of('b').load('t', context)).toBeUndefined()
  const copy = await tasks.of('a').load('t', context)
  copy!.artifacts[0]!.parts = []
  copy!.artifacts = []
  const again = await tasks.of('a').load('t', context)
  expect([again!.artifacts.length, again!.artifacts[0]!.parts.length]).toEqual([1, 1])
})

test('D32 a task that has left is put together from the store, with its receipt', async () => {
  const tasks = new A2aTasks({
    records: { find: async (agentId, id) => (agentId === 'a' && id === 'old' ? record : undefined) },
  })
  const found = await tasks.of('a').load('old', context)
  expect(found).toMatchObject({ id: 'old', contextId: 'c', status: { state: TaskState.TASK_STATE_COMPLETED } })
  expect(found!.status!.message!.metadata).toMatchObject({
    'x402.payment.status': 'payment-completed',
    'x402.payment.receipts': [{ success: true, transaction: hash }],
  })
  expect(await tasks.of('b').load('old', context)).toBeUndefined()
})

test('the first update of a new task does not wait for the ledger', async () => {
  const tasks = new A2aTasks({ records: { find: () => Promise.reject(new Error('asked for')) } })
  tasks.start('new', { controller: new AbortController(), canCancel: true, isCanceled: false, bytes: 1 })
  expect(await tasks.of('a').load('new', context)).toBeUndefined()
})

test('a failed one says that nothing was charged', async () => {
  const failed = {
    ...record,
    output: undefined,
    error: 'the agent failed',
    payment: { ...record.payment!, state: 'voided' as const },
  }
  const tasks = new A2aTasks({ records: { find: async () => failed } })
  const found = await tasks.of('a').load('old', context)
  expect(found!.status!.state).toBe(TaskState.TASK_STATE_FAILED)
  expect(found!.status!.message!.metadata).toMatchObject({ 'x402.payment.status': 'payment-failed' })
})

test('a receipt comes with the transaction, however late that is', async () => {
  let settled = false
  const find = async () => ({ ...record, payment: { ...record.payment!, txHash: settled ? hash : undefined } })
  const tasks = new A2aTasks({ records: { find } })
  const pending = { 'x402.payment.status': 'payment-verified', 'x402.payment.receipts': [] }
  await tasks.of('a').save(task('t', { metadata: pending }), context)
  const receipts = async () =>
    (await tasks.of('a').load('t', context))!.status!.message!.metadata!['x402.payment.receipts']
  expect(await receipts()).toEqual([])
  settled = true
  expect(await receipts()).toMatchObject([{ transaction: hash }])
})

test.each([STRANGER, strangerWith('ab')])(
  'T6 a stranger (%o) finds its result when its payment has settled',
  async (stranger) => {
    const callerId = a2aCaller(stranger.tokenId, 'c')
    const unpaid = { ...record.payment!, txHash: undefined }
    const found = async (payment: TaskRecord['payment']) => {
      const tasks = new A2aTasks({ records: { find: async () => ({ ...record, callerId, payment }) } })
      return (await tasks.of('a').load('old', { state: new Map([[CALLER_KEY, stranger]]) } as never))!
    }
    const waiting = await found({ ...unpaid, state: 'owed' })
    expect([waiting.status?.state, waiting.artifacts, waiting.contextId]).toEqual([
      TaskState.TASK_STATE_WORKING,
      [],
      'c',
    ])
    const refused = await found({ ...unpaid, state: 'unsettled' })
    expect([refused.status?.state, refused.artifacts]).toEqual([TaskState.TASK_STATE_FAILED, []])
    expect(refused.status?.message?.metadata).toMatchObject({ 'x402.payment.error': 'SETTLEMENT_FAILED' })
    expect(await found(record.payment)).toMatchObject({ status: { state: TaskState.TASK_STATE_COMPLETED } })
  },
)

test('a result that was kept back is given if its payment settles after all', async () => {
  let settled = false
  const tasks = new A2aTasks({ records: { find: async () => (settled ? { ...record, taskId: 't' } : undefined) } })
  const failed = task('t', { metadata: { 'x402.payment.error': 'SETTLEMENT_FAILED' } })
  await tasks.of('a').save({ ...failed, status: { ...failed.status!, state: TaskState.TASK_STATE_FAILED } }, context)
  const state = async () => (await tasks.of('a').load('t', context))!.status!.state
  expect(await state()).toBe(TaskState.TASK_STATE_FAILED)
  settled = true
  expect(await state()).toBe(TaskState.TASK_STATE_COMPLETED)
})

test('T31 a task whose caller talks on without end keeps its first message and the latest', async () => {
  const tasks = new A2aTasks({ records: none })
  const store = tasks.of('a')
  for (let said = 1; said <= 100; said++) {
    const before = (await store.load('t', context)) ?? task('t')
    await store.save(
      { ...before, history: [...before.history, message('more', { messageId: `message ${said}` })] },
      context,
    )
  }
  const texts = (await store.load('t', context))!.history.map(({ messageId }) => messageId)
  expect(texts.length).toBeLessThan(10)
  expect([texts[0], texts.at(-1)]).toEqual(['message 1', 'message 100'])
})
