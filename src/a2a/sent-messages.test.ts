/** D38: a message that is sent again makes no second task, whatever becomes of the process and its clock. */
import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { openDatabase } from '../store/database.ts'
import { createRunTime, RUN_TIME_APART_MS } from '../store/run-time.ts'
import { createSentMessageStore } from '../store/sent-messages.ts'
import { SentMessages } from './sent-messages.ts'

const HOUR_MS = 60 * 60 * 1000
type Delivery = Awaited<ReturnType<SentMessages['send']>>

const message: Parameters<SentMessages['send']>[0] = { agentId: 'a', owner: undefined, messageId: 'm', asked: 'task' }
const first = (sending: Delivery) => {
  if (sending.kind !== 'first') throw new Error('it was sent before')
  return sending
}
const taskOf = (sending: Delivery) => (sending.kind === 'again' ? sending.task : undefined)

async function setup(clock = new HandClock(), database = openDatabase({ path: ':memory:' })) {
  const runTime = await createRunTime(database, clock)
  const store = createSentMessageStore(database, runTime)
  const sent = new SentMessages({ messages: store, runTime })
  /** As after the end of the process. */
  const restarted = (later: HandClock) => setup(later, database)
  return { clock, database, runTime, store, sent, restarted }
}

test('D38 T17 a message that has begun is known after a restart, to its principal alone, and what is lost of it runs anew', async () => {
  const { sent, restarted } = await setup()
  await first(await sent.send(message)).begun({ taskId: 't', contextId: 'c' })
  const after = (await restarted(new HandClock())).sent
  expect(await after.send(message)).toMatchObject({ kind: 'again', isStored: true })
  expect(await taskOf(await after.send(message))).toBe('t')
  await expect(after.send({ ...message, asked: 'another' })).rejects.toThrow(/IDEMPOTENCY_CONFLICT/)
  expect(await after.send({ ...message, owner: 'token' })).toMatchObject({ kind: 'first' })
  // Nothing is left of its task: of all who ask, one has it done anew.
  const anew = first(await after.send(message, 't'))
  const waiting = await after.send(message, 't')
  await anew.begun({ taskId: 'u', contextId: 'c' })
  expect(await taskOf(waiting)).toBe('u')
  expect(await taskOf(await (await restarted(new HandClock())).sent.send(message))).toBe('u')
})

test('D38 T16 what the store cannot take does not begin, and may be sent again', async () => {
  const { sent, store, runTime } = await setup()
  const put = () => Promise.reject(new Error('the disk is full'))
  const full = new SentMessages({ messages: { ...store, put }, runTime })
  await expect(first(await full.send(message)).begun({ taskId: 't', contextId: 'c' })).rejects.toThrow('full')
  expect(await full.send(message)).toMatchObject({ kind: 'first' })
  expect(await sent.send(message)).toMatchObject({ kind: 'first' })
})

test('D38 T16 an id lives 24 hours of the time that the node has run: a clock that is set drops none and keeps none', async () => {
  const { sent, store, runTime, clock, restarted } = await setup()
  await first(await sent.send(message)).begun({ taskId: 't', contextId: 'c' })
  clock.advance(HOUR_MS)
  clock.jump(72 * HOUR_MS)
  await store.purge()
  expect(await sent.send(message)).toMatchObject({ kind: 'again' })
  await runTime.save()
  const later = new HandClock(clock.now() + 72 * HOUR_MS)
  const after = await restarted(later)
  later.advance(22 * HOUR_MS)
  await after.store.purge()
  expect(await after.sent.send(message)).toMatchObject({ kind: 'again' })
  later.jump(-720 * HOUR_MS)
  later.advance(HOUR_MS + RUN_TIME_APART_MS)
  await after.store.purge()
  expect(await after.sent.send(message)).toMatchObject({ kind: 'first' })
})

test('T19 T25 a principal fills the disk with no more ids than it may have, and pushes out nobody else’s', async () => {
  const { database, runTime } = await setup()
  const store = createSentMessageStore(database, runTime, { messagesMax: 10, lookEvery: 5 })
  const put = (tokenId: string, messageId: string) =>
    store.put({ tokenId, agentId: 'a', messageId }, { hash: Buffer.alloc(32), taskId: messageId, contextId: 'c' })
  const isKnown = async (tokenId: string, messageId: string) =>
    (await store.find({ tokenId, agentId: 'a', messageId })) !== undefined
  await put('modest', 'm')
  for (let no = 1; no <= 100; no++) await put('greedy', `${no}`)
  const { n } = database.prepare('SELECT count(*) AS n FROM sent_messages').get() as { n: number }
  expect(n).toBeLessThanOrEqual(1 + 10 + 5)
  expect([await isKnown('modest', 'm'), await isKnown('greedy', '100')]).toEqual([true, true])
  expect(await isKnown('greedy', '1')).toBe(false)
  await store.end('100', { state: 'failed', text: 'x'.repeat(100_000), at: 0 })
  expect((await store.ended('a', '100'))?.text).toHaveLength(2_000)
})

test('D38 of a message that comes twice at the same instant, one makes the task', async () => {
  const { sent } = await setup()
  const [one, other] = await Promise.all([sent.send(message), sent.send(message)])
  await first(one!).begun({ taskId: 't', contextId: 'c' })
  expect(await taskOf(other!)).toBe('t')
})

test('D38 of two processes that get a message at the same instant, one makes the task', async () => {
  const { sent, restarted } = await setup()
  const { sent: elsewhere } = await restarted(new HandClock())
  const [here, there] = await Promise.all([sent.send(message), elsewhere.send(message)])
  expect(await first(here!).begun({ taskId: 't', contextId: 'c' })).toBe(true)
  const waiting = await elsewhere.send(message)
  expect(await first(there!).begun({ taskId: 'u', contextId: 'c' })).toBe(false)
  expect(await taskOf(waiting)).toBe(undefined)
  expect(await taskOf(await elsewhere.send(message))).toBe('t')
})
