import { beforeEach, expect, test } from 'vitest'
import { createDeferred, type Deferred } from '../../src/store/deferred.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createPayments, type Payments } from '../../src/store/payments.ts'
import { asEnded, onBothEngines } from '../support/ledgers.ts'
import { agentId, claim, exchangeOf, randomHex } from '../support/payments.ts'

const now = Date.UTC(2026, 0, 1)
const sought = { peerId: 'buyer', agentId, task: 'task' }
let database: LedgerDatabase
let payments: Payments
let deferred: Deferred

onBothEngines((open) => {
  beforeEach(async () => {
    database = await open()
    payments = createPayments(database)
    deferred = createDeferred(database)
  })

  async function settledFirst() {
    const payment = claim(now, { task: 'task' })
    await payments.claim(payment, now)
    await payments.save({ id: payment.id, state: 'owed', nextAttemptAt: now }, now)
    return payment
  }

  test('D39 a payment that was answered 2007 is found by its task until its buyer has the result', async () => {
    const { id } = await settledFirst()
    expect([await deferred.was(id), await deferred.find(sought)]).toEqual([false, undefined])
    await deferred.defer(id)
    expect([await deferred.was(id), await deferred.find(sought)]).toEqual([true, id])
    expect(await deferred.find({ ...sought, task: 'Task' })).toBeUndefined()
    expect(await deferred.find({ ...sought, peerId: 'mallory' })).toBeUndefined()
    await deferred.taken(id)
    expect([await deferred.was(id), await deferred.find(sought)]).toEqual([true, undefined])
  })

  test('D39 settled work that has not run is found, unless it ran since', async () => {
    const payment = await settledFirst()
    await deferred.defer(payment.id)
    expect(await deferred.unrun(9)).toEqual([])
    await payments.save({ id: payment.id, state: 'settled', txHash: randomHex() }, now)
    expect(await deferred.unrun(9)).toEqual([payment.id])
  })

  test('D39 all settled work of a process that has ended is taken over, however much it is', async () => {
    const before = createPayments(asEnded(database))
    const left = Array.from({ length: 1_005 }, () => claim(now, { task: 'task' }))
    await Promise.all(left.map((payment) => before.claim(payment, now)))
    await Promise.all(left.map(({ id }) => before.save({ id, state: 'owed', nextAttemptAt: now }, now)))
    await Promise.all(left.map(({ id }) => before.save({ id, state: 'settled', txHash: randomHex() }, now)))
    await payments.takeOver('the node stopped', now)
    expect(new Set(await deferred.unrun(9_999))).toEqual(new Set(left.map(({ id }) => id)))
  })

  test.each([
    [now, false],
    [now + 24 * 60 * 60 * 1000 + 1, true],
  ])(
    'D39 settled work of a process that has ended is taken over, also if its buyer got no answer lately',
    async (at, isLong) => {
      const ended = asEnded(database)
      const before = { payments: createPayments(ended), deferred: createDeferred(ended) }
      const left = []
      for (const isDeferred of [true, false]) {
        const payment = claim(now, { task: 'task' })
        await before.payments.claim(payment, now)
        if (isDeferred) await before.deferred.defer(payment.id)
        await before.payments.save({ id: payment.id, state: 'owed', nextAttemptAt: now }, now)
        await before.payments.save({ id: payment.id, state: 'settled', txHash: randomHex() }, now)
        left.push(payment.id)
      }
      expect(await deferred.unrun(9)).toEqual([])
      await payments.takeOver('stopped', at)
      expect(await deferred.unrun(9)).toEqual(isLong ? [left[0]] : left)
    },
  )

  test('D32 a result whose buyer had left is found by what was asked, of a payment with and without a stored task', async () => {
    const plain = claim(now)
    await payments.claim(plain, now)
    await payments.deliver({ id: plain.id, state: 'owed', nextAttemptAt: now }, exchangeOf(plain, now), now)
    await deferred.unheard(plain.id)
    expect(await deferred.findUnheard(sought)).toBe(plain.id)
    await deferred.taken(plain.id)
    expect(await deferred.findUnheard(sought)).toBeUndefined()
    const late = claim(now)
    await payments.claim(late, now)
    await deferred.keepTask(late.id, 'task')
    await payments.save({ id: late.id, state: 'owed', nextAttemptAt: now }, now)
    await deferred.unheard(late.id)
    await deferred.defer(late.id)
    expect([await deferred.findUnheard(sought), await deferred.find(sought)]).toEqual([late.id, undefined])
  })
})
