import { expect, test } from 'vitest'
import { STRANGER, strangerWith } from '../../src/schema/caller.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createPayments } from '../../src/store/payments.ts'
import { one, run } from '../../src/store/query.ts'
import { createSentMessageStore, MESSAGE_LIFE_MS } from '../../src/store/sent-messages.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { agentId, claim } from '../support/payments.ts'

const name = (messageId: string, tokenId: string | undefined = undefined) => ({ tokenId, agentId: 'a', messageId })
const message = (taskId: string) => ({ hash: Buffer.alloc(32, 7), taskId, contextId: 'c' })

/** A store whose node has run for as long as the test says. */
function storeOf(database: LedgerDatabase, limits?: { messagesMax?: number; lookEvery?: number; waitsMax?: number }) {
  const ran = { ms: 1_000 }
  const store = createSentMessageStore(database, { now: () => ran.ms, save: async () => {} }, limits)
  return { store, ran }
}

onBothEngines((open, openTwo) => {
  test('T23 the task of a paid run that a crash has interrupted says how it ended, and no other task does', async () => {
    const database = await open()
    const { store } = storeOf(database)
    const payments = createPayments(database)
    const wait = { input: 'task', text: 'pay', metadata: { pay: '1 USDC' }, at: 1 }
    for (const id of ['paid', 'waiting', 'peer']) await store.put({ ...name(id), agentId }, message(id))
    await store.rest('waiting', wait)
    await payments.claimExposed(claim(1, { correlationId: 'paid', door: 'a2a' }), 1)
    // A peer chooses its correlation ids.
    await payments.claimExposed(claim(1, { correlationId: 'peer' }), 1)
    await database.commit(run("UPDATE payments SET owner = 'gone'"))
    expect(await payments.takeOver('stopped', 5)).toBe(2)
    expect(await store.ended(agentId, 'paid')).toMatchObject({ state: 'failed', text: 'stopped', at: 5 })
    expect([await store.ended(agentId, 'waiting'), await store.ended(agentId, 'peer')]).toEqual([undefined, undefined])
    expect(await store.waiting(agentId, 'waiting')).toMatchObject(wait)
    expect(await store.waiting(agentId, 'paid')).toBeUndefined()
  })

  test('D38: a message reads back to its principal, and its id names one task', async () => {
    const { store } = storeOf(await open())
    expect(await store.put(name('m'), message('t'))).toBe(true)
    expect(await store.put(name('m'), message('u'))).toBe(false)
    const found = await store.find(name('m'))
    expect([found?.taskId, Buffer.compare(found!.hash, Buffer.alloc(32, 7))]).toEqual(['t', 0])
    expect(await store.find(name('m', 'token'))).toBeUndefined()
    expect(await store.put(name('m', 'token'), message('v'))).toBe(true)
  })

  test('D38: of two processes that store a message at the same instant, one is first', async () => {
    const [first, second] = (await openTwo()).map((database) => storeOf(database).store)
    const stored = await Promise.all([first!.put(name('m'), message('t')), second!.put(name('m'), message('u'))])
    expect([...stored].sort()).toEqual([false, true])
    expect((await first!.find(name('m')))?.taskId).toBe(stored[0] ? 't' : 'u')
  })

  test('D38: of two that replace a lost task, one does', async () => {
    const [first, second] = (await openTwo()).map((database) => storeOf(database).store)
    await first!.put(name('m'), message('lost'))
    const stored = await Promise.all([
      first!.put(name('m'), message('t'), 'lost'),
      second!.put(name('m'), message('u'), 'lost'),
    ])
    expect([...stored].sort()).toEqual([false, true])
  })

  test('D38: a task on which another process works is not lost, whatever is thought of it', async () => {
    const [first, second] = (await openTwo()).map((database) => storeOf(database).store)
    await first!.put(name('m'), message('t'))
    const isShared = (await second!.elsewhere('a', 't')) !== undefined
    expect(await second!.put(name('m'), message('u'), 't')).toBe(!isShared)
    await first!.rest('t')
    expect(await second!.put(name('m'), message('v'), isShared ? 't' : 'u')).toBe(true)
  })

  test('T42 what a stranger began belongs to its secret, at each process, and secrets make no room of their own', async () => {
    const limits = { messagesMax: 3, lookEvery: 1, waitsMax: 2 }
    const [first, second] = (await openTwo()).map((database) => storeOf(database, limits).store)
    const [one, other] = ['0a'.repeat(16), '0b'.repeat(16)].map((digest) => strangerWith(digest).tokenId)
    await first!.put(name('m', one), message('t'))
    expect(await first!.find(name('m', other))).toBeUndefined()
    expect(await first!.find(name('m', STRANGER.tokenId))).toBeUndefined()
    expect((await first!.find(name('m', one)))?.taskId).toBe('t')
    const isShared = (await second!.elsewhere('a', 't')) !== undefined
    if (isShared) expect((await second!.elsewhere('a', 't'))?.tokenId).toBe(one)
    const wait = { input: 'i', text: 'pay', metadata: undefined, at: 5 }
    await first!.rest('t', wait)
    if (isShared) expect((await second!.waiting('a', 't'))?.tokenId).toBe(one)
    await first!.end('t', { state: 'canceled', text: 'x', at: 1 })
    expect((await second!.ended('a', 't'))?.tokenId).toBe(one)
    for (const task of ['u', 'v', 'w']) {
      const owner = strangerWith(Buffer.from(task.repeat(16)).toString('hex')).tokenId
      await first!.put(name('m', owner), message(task))
      await first!.rest(task, wait)
    }
    expect(await first!.find(name('m', one))).toBeUndefined()
    expect(await second!.waiting('a', 'u')).toBeUndefined()
    if (isShared) expect(await second!.waiting('a', 'w')).toBeDefined()
  })

  test('D38 T19: what a task waits for is known to all processes, if it is short, for a number of tasks', async () => {
    const [first, second] = (await openTwo()).map((database) => storeOf(database, { waitsMax: 2 }).store)
    const wait = (input: string) => ({ input, text: 'pay', metadata: undefined, at: 5 })
    for (const task of ['t', 'u', 'v', 'long']) {
      await first!.put(name(task), message(task))
      await first!.rest(task, wait(task === 'long' ? 'x'.repeat(70_000) : task))
    }
    const known = async (task: string) => (await second!.waiting('a', task))?.input
    const isShared = (await known('v')) !== undefined
    const inputs = [await known('t'), await known('u'), await known('v'), await known('long')]
    expect(inputs).toEqual(isShared ? [undefined, 'u', 'v', undefined] : [undefined, undefined, undefined, undefined])
    expect(await second!.tasks('a', null, 3)).toEqual(['long', 'v', 'u'])
    expect(await second!.tasks('a', 'token', 3)).toEqual([])
    // Whoever works on a task next says what it waits for then.
    await second!.put(name('paid'), message('v'))
    expect(await known('v')).toBeUndefined()
    expect(await second!.tasks('a', null, 3)).toEqual(['v', 'long', 'u'])
  })

  test('T16: an id is free again after its time, and is purged', async () => {
    const { store, ran } = storeOf(await open())
    await store.put(name('m'), message('t'))
    await store.put(name('n'), message('u'))
    ran.ms += MESSAGE_LIFE_MS - 1
    await store.purge()
    expect((await store.find(name('n')))?.taskId).toBe('u')
    ran.ms += 1
    expect(await store.find(name('m'))).toBeUndefined()
    expect(await store.put(name('m'), message('v'))).toBe(true)
    await store.purge()
    ran.ms -= 1
    expect([(await store.find(name('m')))?.taskId, await store.find(name('n'))]).toEqual(['v', undefined])
  })

  test('how a task ended is known to its agent, shortened', async () => {
    const { store } = storeOf(await open())
    await store.put(name('m', 'token'), message('t'))
    expect(await store.ended('a', 't')).toBeUndefined()
    await store.end('t', { state: 'failed', text: 'x'.repeat(10_000), at: 5 })
    const ended = { tokenId: 'token', contextId: 'c', state: 'failed', at: 5, text: 'x'.repeat(2_000) }
    expect(await store.ended('a', 't')).toEqual(ended)
    expect(await store.ended('b', 't')).toBeUndefined()
  })

  test('T19: each principal has room for so many ids', async () => {
    const database = await open()
    const { store } = storeOf(database, { messagesMax: 10, lookEvery: 5 })
    await store.put(name('m', 'modest'), message('modest'))
    for (let no = 0; no < 29; no++) await store.put(name(`${no}`, 'greedy'), message(`${no}`))
    const { n } = (await database.query(one<{ n: number }>('SELECT count(*) AS n FROM sent_messages')))!
    expect(n).toBe(11)
    expect((await store.find(name('28', 'greedy')))?.taskId).toBe('28')
    expect((await store.find(name('m', 'modest')))?.taskId).toBe('modest')
  })
})
