/** D38: a message that is sent again makes no second task, whatever becomes of the process and its clock. */
import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { openDatabase } from '../store/database.ts'
import { createRunTime } from '../store/run-time.ts'
import { createSentMessageStore } from '../store/sent-messages.ts'
import { SentMessages } from './sent-messages.ts'

const HOUR_MS = 60 * 60 * 1000
type Delivery = ReturnType<SentMessages['send']>

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
  await first(sent.send(message)).begun({ taskId: 't', contextId: 'c' })
  const after = (await restarted(new HandClock())).sent
  expect(after.send(message)).toMatchObject({ kind: 'again', isStored: true })
  expect(await taskOf(after.send(message))).toBe('t')
  expect(() => after.send({ ...message, asked: 'another' })).toThrow(/IDEMPOTENCY_CONFLICT/)
  expect(after.send({ ...message, owner: 'token' })).toMatchObject({ kind: 'first' })
  // Nothing is left of its task: of all who ask, one has it done anew.
  const anew = first(after.send(message, 't'))
  const waiting = after.send(message, 't')
  await anew.begun({ taskId: 'u', contextId: 'c' })
  expect(await taskOf(waiting)).toBe('u')
  expect(await taskOf((await restarted(new HandClock())).sent.send(message))).toBe('u')
})

test('D38 T16 what the store cannot take does not begin, and may be sent again', async () => {
  const { sent, store, runTime } = await setup()
  const put = () => Promise.reject(new Error('the disk is full'))
  const full = new SentMessages({ messages: { ...store, put }, runTime })
  await expect(first(full.send(message)).begun({ taskId: 't', contextId: 'c' })).rejects.toThrow('full')
  expect(full.send(message)).toMatchObject({ kind: 'first' })
  expect(sent.send(message)).toMatchObject({ kind: 'first' })
})

test('D38 T16 an id lives 24 hours of the time that the node has run: a clock that is set drops none and keeps none', async () => {
  const { sent, store, runTime, clock, restarted } = await setup()
  await first(sent.send(message)).begun({ taskId: 't', contextId: 'c' })
  clock.advance(HOUR_MS)
  clock.jump(72 * HOUR_MS)
  await store.purge()
  expect(sent.send(message)).toMatchObject({ kind: 'again' })
  await runTime.save()
  const later = new HandClock(clock.now() + 72 * HOUR_MS)
  const after = await restarted(later)
  later.advance(22 * HOUR_MS)
  await after.store.purge()
  expect(after.sent.send(message)).toMatchObject({ kind: 'again' })
  later.jump(-720 * HOUR_MS)
  later.advance(HOUR_MS)
  await after.store.purge()
  expect(after.sent.send(message)).toMatchObject({ kind: 'first' })
})

test('T19 T25 a principal fills the disk with no more ids than it may have, and pushes out nobody else’s', async () => {
  const { database, runTime } = await setup()
  const store = createSentMessageStore(database, runTime, { messagesMax: 10, lookEvery: 5 })
  const put = (tokenId: string, messageId: string) =>
    store.put({ tokenId, agentId: 'a', messageId }, { hash: Buffer.alloc(32), taskId: messageId, contextId: 'c' })
  const isKnown = (tokenId: string, messageId: string) => store.find({ tokenId, agentId: 'a', messageId }) !== undefined
  await put('modest', 'm')
  for (let no = 1; no <= 100; no++) await put('greedy', `${no}`)
  const { n } = database.prepare('SELECT count(*) AS n FROM sent_messages').get() as { n: number }
  expect(n).toBeLessThanOrEqual(1 + 10 + 5)
  expect([isKnown('modest', 'm'), isKnown('greedy', '100'), isKnown('greedy', '1')]).toEqual([true, true, false])
  await store.end('100', { state: 'failed', text: 'x'.repeat(100_000), at: 0 })
  expect(store.ended('a', '100')?.text).toHaveLength(2_000)
})
