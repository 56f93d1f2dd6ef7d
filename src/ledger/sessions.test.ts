import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { claim, randomHex } from '../../test/support/payments.ts'
import { shortest } from '../../test/support/shortest.ts'
import { RUN_CANCELED } from '../schema/limits.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { createExchanges, type NewExchange } from '../store/exchanges.ts'
import { createPayments } from '../store/payments.ts'
import { createPurchases, type Order } from '../store/purchases.ts'
import { createSessionStore } from '../store/sessions.ts'
import { createSessions, type Sessions } from './sessions.ts'

const now = Date.UTC(2026, 0, 1)
const page = { limit: 50 }
let database: Database
let sessions: Sessions

beforeEach(() => {
  database = openDatabase({ path: ':memory:' })
  sessions = createSessions({
    store: createSessionStore(database),
    purchases: createPurchases(database),
    isKnown: (agentId) => agentId === 'listed',
  })
})
afterEach(() => database.close())

let count = 0
async function said(callerId: string, input: string, more: Partial<NewExchange> = {}): Promise<void> {
  const createdAt = now + ++count * 1_000
  const exchange = { agentId: 'agent', callerId, correlationId: `c${count}`, input, output: `re: ${input}`, createdAt }
  await createExchanges(database).record({ ...exchange, durationMs: 250, ...more })
}
async function ordered(task: string, more: Partial<Order> = {}): Promise<void> {
  const createdAt = now + ++count * 1_000
  await createPurchases(database).finish({
    id: `o${count}`,
    agentId: 'agent',
    sellerId: 'seller',
    price: 1n,
    status: 'completed',
    task,
    output: `re: ${task}`,
    error: undefined,
    correlationId: `c${count}`,
    createdAt,
    updatedAt: createdAt + 500,
    ...more,
  })
}
const inputs = ({ exchanges }: { exchanges: { input: string }[] }) => exchanges.map(({ input }) => input)

describe('D19, T9: a session', () => {
  test('is one caller’s with one agent, and holds nobody else’s words', async () => {
    for (const [caller, input] of [
      ['did:a', '1'],
      ['did:b', 'secret'],
      ['did:a', '2'],
      ['did:ab', '3'],
    ] as const)
      await said(caller, input)
    await said('did:a', 'elsewhere', { agentId: 'other' })
    const { session, next } = await sessions.get('agent', 'did:a', page)
    expect(session).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      agent_id: 'agent',
      caller_id: 'did:a',
      created_at: '2026-01-01T00:00:01.000Z',
      updated_at: '2026-01-01T00:00:03.250Z',
      exchanges: [
        { correlation_id: 'c1', input: '1', output: 're: 1', created_at: '2026-01-01T00:00:01.000Z', duration_ms: 250 },
        { correlation_id: 'c3', input: '2', output: 're: 2', created_at: '2026-01-01T00:00:03.000Z', duration_ms: 250 },
      ],
    })
    expect(next).toBeUndefined()
    expect(inputs((await sessions.get('agent', 'did:b', page)).session)).toEqual(['secret'])
  })

  test('is paged back in time, each page oldest first', async () => {
    for (let index = 1; index <= 7; index++) await said('did:a', `${index}`)
    const pages: string[][] = []
    for (let cursor: string | undefined = ''; cursor !== undefined; ) {
      const got: Awaited<ReturnType<Sessions['get']>> = await sessions.get('agent', 'did:a', {
        limit: 3,
        ...(cursor !== '' && { cursor }),
      })
      pages.push(inputs(got.session))
      expect(got.session.created_at < got.session.updated_at).toBe(true)
      cursor = got.next
    }
    expect(pages).toEqual([['5', '6', '7'], ['2', '3', '4'], ['1']])
  })

  test('T19: a page ends early when its texts are long', async () => {
    for (let index = 0; index < 3; index++) await said('did:a', 'x'.repeat(3_000_000))
    const got = await sessions.get('agent', 'did:a', page)
    expect([got.session.exchanges.length, got.next]).toEqual([1, expect.any(String)])
  })

  test('of the seller’s shows what became of each payment', async () => {
    const payments = createPayments(database)
    const settled = async (state: 'owed' | 'settled' | 'voided' | 'unsettled') => {
      const payment = claim(now, { agentId: 'agent' })
      await payments.claim(payment, now)
      if (state !== 'owed') await payments.save({ id: payment.id, state: 'owed', nextAttemptAt: now }, now)
      await payments.save({ id: payment.id, state, ...(state === 'settled' && { txHash: randomHex() }) }, now)
      await said('did:a', state, {
        paymentId: payment.id,
        ...(state === 'voided' && { output: undefined, error: 'broke' }),
      })
    }
    for (const state of ['owed', 'settled', 'voided', 'unsettled'] as const) await settled(state)
    const { exchanges } = (await sessions.get('agent', 'did:a', page)).session
    expect(exchanges.map(({ payment }) => [payment?.settlement, payment?.amount, payment?.tx_hash === ''])).toEqual([
      ['pending', '0.01', true],
      ['settled', '0.01', false],
      ['voided', '0.01', true],
      ['failed', '0.01', true],
    ])
    expect(exchanges[2]).toMatchObject({ output: null, error: 'broke' })
  })

  test('of this node itself, `local`, is its orders that have run and ended', async () => {
    await ordered('one')
    await ordered('fails', {
      status: 'failed',
      output: undefined,
      error: { code: 'X', message: 'why', retryable: false },
    })
    await ordered('waits', { status: 'pending', output: undefined, correlationId: undefined })
    await ordered('runs', { status: 'executing', output: undefined })
    await ordered('never ran', { status: 'cancelled', output: undefined, correlationId: undefined })
    await ordered('other', { agentId: 'other' })
    // An own agent's run is an exchange as well: it is not told twice.
    await said('local', 'one')
    const { session } = await sessions.get('agent', 'local', page)
    expect(session.exchanges).toMatchObject([
      { input: 'one', output: 're: one', duration_ms: 500 },
      { input: 'fails', output: null, error: 'why' },
    ])
  })

  test('that is none is told as such', async () => {
    await expect(sessions.get('agent', 'did:a', page)).rejects.toMatchObject({ code: 'UNKNOWN_SESSION' })
  })
})

describe('D19: the sessions of an agent', () => {
  test('are listed by caller, page by page, with `local` in its place and the latest words', async () => {
    const callers = Array.from({ length: 9 }, (_, index) => `did:${index}`)
    for (const caller of [...callers.toReversed(), 'zoe']) await said(caller, caller)
    for (let index = 0; index < 8; index++) await said('did:4', `word ${index}`)
    await ordered('mine')
    const expected = [...callers, 'local', 'zoe']
    for (const limit of [1, 2, 5, 11, 50]) {
      const seen: string[] = []
      for (let cursor: string | undefined = ''; cursor !== undefined; ) {
        const got: Awaited<ReturnType<Sessions['list']>> = await sessions.list('agent', {
          limit,
          ...(cursor !== '' && { cursor }),
        })
        expect(got.items.length).toBeLessThanOrEqual(limit)
        seen.push(...got.items.map(({ caller_id }) => caller_id))
        cursor = got.next
      }
      expect(seen).toEqual(expected)
    }
    const busy = (await sessions.list('agent', page)).items[4]
    expect(inputs(busy!)).toEqual(['word 3', 'word 4', 'word 5', 'word 6', 'word 7'])
  })

  test('tell what its caller canceled apart from what failed', async () => {
    await said('did:a', 'one', { output: undefined, error: 'broke' })
    await said('did:a', 'two', { output: undefined, error: RUN_CANCELED })
    await ordered('three', {
      status: 'failed',
      output: undefined,
      error: { code: 'X', message: 'broke', retryable: false },
    })
    await ordered('four', { status: 'cancelled', output: undefined })
    const marks = async (caller: string) =>
      (await sessions.get('agent', caller, page)).session.exchanges.map(({ input, canceled }) => [input, canceled])
    expect(await marks('did:a')).toEqual([
      ['one', undefined],
      ['two', true],
    ])
    expect(await marks('local')).toEqual([
      ['three', undefined],
      ['four', true],
    ])
  })

  test('are none of a listed agent that nobody has called; of an agent nobody knows it is said', async () => {
    expect(await sessions.list('listed', page)).toEqual({ items: [], next: undefined })
    await expect(sessions.list('nobody', page)).rejects.toMatchObject({ code: 'UNKNOWN_AGENT' })
  })

  test('are found from caller to caller, however much each has said', async () => {
    await database.write(() => {
      const insert = database.prepare(
        `INSERT INTO exchanges (agent_id, caller_id, correlation_id, input, output, created_at, duration_ms)
           VALUES ('agent', ?, 'c', 'i', 'o', 0, 0)`,
      )
      for (let index = 0; index < 60_000; index++) insert.run(`did:${index % 3}`)
    })
    const everyRow = database.prepare('SELECT count(DISTINCT caller_id || input) FROM exchanges')
    const listing = await shortest(async () => expect((await sessions.list('agent', page)).items).toHaveLength(3))
    expect(listing).toBeLessThan((await shortest(async () => everyRow.get())) / 2)
  })
})
