import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { claim, exchangeOf, randomHex, requirements, testWallet } from '../../test/support/payments.ts'
import { assets } from '../payments/assets.ts'
import { createWallet } from '../payments/wallet.ts'
import type { Hex } from '../schema/primitives.ts'
import { type Database, openDatabase } from './database.ts'
import { createExchanges } from './exchanges.ts'
import { createPayments, type PaymentState, type Payments } from './payments.ts'
import type { Query } from './query.ts'

const now = Date.UTC(2026, 0, 1)
let database: Database
let payments: Payments

beforeEach(() => {
  database = openDatabase({ path: ':memory:' })
  payments = createPayments(database)
})
afterEach(() => database.close())

test('a claimed payment reads back as it was', async () => {
  const payment = claim(now, { challengeNonce: randomHex(), task: 'task' })
  expect(await payments.claim(payment, now)).toBe(true)
  expect(await payments.get(payment.id)).toEqual({
    ...payment,
    state: 'authorized',
    ran: false,
    attempts: 0,
    nextAttemptAt: undefined,
    unclear: false,
    blamed: false,
    txHash: undefined,
    error: undefined,
    createdAt: now,
    updatedAt: now,
  })
  expect((await payments.get(payment.id.toUpperCase().replace('0X', '0x') as Hex))?.id).toBe(payment.id)
  expect(await payments.challengeConsumed(payment.challengeNonce!)).toBe(true)
  expect(await payments.challengeConsumed(randomHex())).toBe(false)
})

describe('T5: the replay key is (network, asset, from, nonce)', () => {
  const nonce = randomHex()
  const first = claim(now, { authorizationNonce: nonce })
  beforeEach(() => payments.claim(first, now))

  test.each([
    ['the same payment again', first],
    ['under another challenge', { ...first, challengeNonce: randomHex() }],
    [
      'from another peer and for another agent',
      { ...first, peerId: 'mallory', agentId: 'other', correlationId: 'two' },
    ],
    ['over another amount', claim(now, { authorizationNonce: nonce, requirements: requirements({ amount: 1n }) })],
    ['with another window', claim(now + 60_000, { authorizationNonce: nonce })],
    ['in other letters', claim(now, { authorizationNonce: nonce.toUpperCase().replace('0X', '0x') as Hex })],
  ])('refuses %s', async (_what, payment) => {
    expect(await payments.claim(payment, now)).toBe(false)
    expect(await payments.counts()).toEqual({ owed: 0, unsettled: 0 })
    expect((await payments.get(first.id))?.peerId).toBe('buyer')
  })

  test('takes the same nonce from another payer and on another network', async () => {
    expect(await payments.claim(claim(now, { authorizationNonce: nonce, wallet: testWallet(2) }), now)).toBe(true)
    const { network, address: asset } = assets['eip155:8453']
    const wallet = createWallet(`0x${'01'.repeat(32)}`, assets['eip155:8453'])
    const asked = requirements({ network, asset })
    const mainnet = claim(now, { authorizationNonce: nonce, wallet, requirements: asked })
    expect(await payments.claim(mainnet, now)).toBe(true)
  })

  test('is known in any letter case', async () => {
    const { network, asset } = first.requirements
    const { from } = first.signed.authorization
    expect(
      await payments.authorizationSeen(network, asset.toLowerCase(), from.toLowerCase(), nonce.toUpperCase()),
    ).toBe(true)
    expect(await payments.authorizationSeen('eip155:8453', asset, from, nonce)).toBe(false)
    expect(await payments.authorizationSeen(network, asset, testWallet(2).address, nonce)).toBe(false)
  })
})

test('one challenge buys one payment, whatever authorization comes with it', async () => {
  const challengeNonce = randomHex()
  expect(await payments.claim(claim(now, { challengeNonce }), now)).toBe(true)
  expect(await payments.claim(claim(now, { challengeNonce }), now)).toBe(false)
  const shouted = challengeNonce.toUpperCase().replace('0X', '0x') as Hex
  expect(await payments.claim(claim(now, { challengeNonce: shouted }), now)).toBe(false)
})

test('T5: of many claims of one authorization at the same time exactly one holds', async () => {
  const payment = claim(now)
  const claims = Array.from({ length: 50 }, (_, peer) => payments.claim({ ...payment, peerId: `peer ${peer}` }, now))
  expect((await Promise.all(claims)).filter(Boolean)).toHaveLength(1)
})

test('a result and the state that follows from it are stored together', async () => {
  const payment = claim(now)
  await payments.claim(payment, now)
  const owed = { id: payment.id, state: 'owed' as const, attempts: 1, nextAttemptAt: now + 5, unclear: true }
  await payments.deliver(owed, exchangeOf(payment, now), now)
  expect(await payments.get(payment.id)).toMatchObject({
    state: 'owed',
    attempts: 1,
    nextAttemptAt: now + 5,
    unclear: true,
  })
  expect(await createExchanges(database).paidOutput(payment.id)).toBe('result')
  const broken = exchangeOf(payment, now, { input: undefined as never, paymentId: undefined })
  await expect(payments.deliver({ id: payment.id, state: 'settled' }, broken, now)).rejects.toThrow()
  expect((await payments.get(payment.id))?.state).toBe('owed')
})

test.each<PaymentState>(['settled', 'voided', 'unsettled'])('%s is final', async (state) => {
  const payment = claim(now)
  await payments.claim(payment, now)
  const txHash = randomHex()
  await payments.save({ id: payment.id, state, txHash, error: 'end', attempts: 3 }, now)
  for (const other of ['authorized', 'owed', 'settled', 'voided', 'unsettled'] as const) {
    await payments.save({ id: payment.id, state: other, txHash: randomHex(), attempts: 9 }, now + 1)
  }
  await payments.voidRunning('late', now)
  await payments.hasten(now)
  expect(await payments.get(payment.id)).toMatchObject({ state, txHash, error: 'end', attempts: 3, updatedAt: now })
})

test('what is due comes longest overdue first, and only that', async () => {
  const ids: Hex[] = []
  for (const wait of [30, 10, 20, 1_000]) {
    const payment = claim(now)
    await payments.claim(payment, now)
    await payments.save({ id: payment.id, state: 'owed', attempts: 1, nextAttemptAt: now + wait }, now)
    ids.push(payment.id)
  }
  const due = async (at: number, limit = 10) => (await payments.due(at, limit)).map(({ id }) => ids.indexOf(id))
  expect(await due(now)).toEqual([])
  expect(await due(now + 30)).toEqual([1, 2, 0])
  expect(await due(now + 30, 2)).toEqual([1, 2])
  expect(await payments.nextDueAt()).toBe(now + 10)
  expect(await payments.counts()).toEqual({ owed: 4, unsettled: 0 })
})

test('T16: what lies further ahead than any wait is due, since the clock was set back', async () => {
  const payment = claim(now)
  await payments.claim(payment, now)
  await payments.save({ id: payment.id, state: 'owed', attempts: 1, nextAttemptAt: now + 60_000 }, now)
  expect(await payments.due(now, 1)).toHaveLength(0)
  expect(await payments.due(now - 60 * 60 * 1000, 1)).toHaveLength(1)
})

test('after a restart what was running is void and what is owed is due', async () => {
  const [running, owed, later] = [claim(now), claim(now), claim(now)]
  for (const payment of [running, owed, later]) await payments.claim(payment, now)
  await payments.save({ id: owed.id, state: 'owed', attempts: 1, nextAttemptAt: now - 5 }, now)
  await payments.save({ id: later.id, state: 'owed', attempts: 2, nextAttemptAt: now + 30_000 }, now)
  expect(await payments.voidRunning('stopped', now)).toBe(1)
  expect(await payments.get(running.id)).toMatchObject({ state: 'voided', error: 'stopped' })
  await payments.hasten(now)
  expect((await payments.due(now, 10)).map(({ id, attempts }) => [id, attempts])).toEqual([
    [owed.id, 1],
    [later.id, 2],
  ])
})

test('T17: everything is there after the database was closed and opened again', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'stoa-payments-'))
  try {
    const path = join(dir, 'stoa.db')
    const first = openDatabase({ path })
    const payment = claim(now, { challengeNonce: randomHex() })
    await createPayments(first).claim(payment, now)
    const owed = { id: payment.id, state: 'owed' as const, attempts: 1, nextAttemptAt: now, unclear: true }
    await createPayments(first).deliver(owed, exchangeOf(payment, now), now)
    const before = await createPayments(first).get(payment.id)
    await first.close()
    const second = openDatabase({ path })
    expect(await createPayments(second).get(payment.id)).toEqual(before)
    expect(await createPayments(second).claim(payment, now)).toBe(false)
    expect(await createPayments(second).challengeConsumed(payment.challengeNonce!)).toBe(true)
    expect(await createExchanges(second).paidOutput(payment.id)).toBe('result')
    await second.close()
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})

test('what is under way is found by its index, however many payments there are', async () => {
  const asked: string[] = []
  const noted = <T>(query: Query<T>) => {
    asked.push(...query.plain!.map(({ sql }) => sql))
    return query
  }
  const watched = createPayments({
    ...database,
    query: (query) => database.query(noted(query)),
    commit: (change) => database.commit(noted(change)),
  })
  await watched.due(now, 1)
  await watched.nextDueAt()
  await watched.oldestOwed()
  await watched.counts()
  await watched.hasten(now)
  await watched.voidRunning('stopped', now)
  const plans = asked.flatMap((sql) => {
    const values = new Array(sql.split('?').length - 1).fill(0)
    return database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values) as { detail: string }[]
  })
  expect(plans.length).toBeGreaterThanOrEqual(7)
  for (const { detail } of plans)
    expect(detail).toMatch(/USING (COVERING )?INDEX|TEMP B-TREE|MULTI-INDEX OR|^INDEX [12]$/)
})
