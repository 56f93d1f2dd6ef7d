/** A seller whose ledger is away for a while does not know what became of a payment, and says nothing about it (T6). */
import { afterEach, expect, test } from 'vitest'
import { signed } from '../../../test/support/payments.ts'
import { TestSeller, type TestSellerOptions, told } from '../../../test/support/x402-seller.ts'
import { type Database, openDatabase } from '../../store/database.ts'
import { StoreError } from '../../store/store-error.ts'

let seller: TestSeller
let isAway: boolean
afterEach(() => {
  isAway = false
  return seller.stop()
})

async function start(options: TestSellerOptions = {}) {
  isAway = false
  const real = openDatabase({ path: ':memory:' })
  const unlessAway = async <T>(work: () => Promise<T>): Promise<T> => {
    if (isAway) throw new StoreError('STORE_AWAY', 'the database cannot be reached')
    return work()
  }
  const database: Database = {
    ...real,
    query: (query) => unlessAway(() => real.query(query)),
    commit: (change) => unlessAway(() => real.commit(change)),
    commitLater: (change) => unlessAway(() => real.commitLater(change)),
  }
  seller = await new TestSeller({ database, ...options }).start()
  return seller.connect()
}

test('who asks for a result meanwhile is told to ask again, and gets it then', async () => {
  const peer = await start()
  const { envelope } = signed(seller.clock.now())
  expect(told(await peer.request({ payment: envelope }))).toBe('re: task')
  isAway = true
  const answer = await peer.askResult(envelope)
  expect([told(answer), answer?.message.retryable]).toEqual(['SETTLEMENT_FAILED', true])
  isAway = false
  expect(told(await peer.askResult(envelope))).toBe('re: task')
  expect(seller.runs).toHaveLength(1)
})

test('a payment that comes meanwhile buys its run afterwards', async () => {
  const peer = await start()
  const { envelope } = signed(seller.clock.now())
  isAway = true
  expect(told(await peer.request({ payment: envelope }))).toBe('SETTLEMENT_FAILED')
  expect(told(await peer.request())).toBe('OVERLOADED')
  isAway = false
  expect(told(await peer.askResult(envelope))).toBe('PAYMENT_REQUIRED')
  expect(told(await peer.request({ payment: envelope }))).toBe('re: task')
  expect(seller.runs).toHaveLength(1)
})

test('settled work whose result could not be stored is no failure that was not charged: it can be asked for', async () => {
  const peer = await start({ settleFirst: true })
  seller.work = async () => {
    isAway = true
    return 'lost'
  }
  const { envelope } = signed(seller.clock.now())
  expect(told(await peer.request({ payment: envelope }))).toBe('SETTLEMENT_FAILED')
  isAway = false
  seller.work = undefined
  expect(told(await peer.askResult(envelope))).toBe('re: task')
})

test('a buyer that has its result gets no error after it', async () => {
  const peer = await start({ settleFirst: true })
  const { envelope } = signed(seller.clock.now())
  expect(told(await peer.request({ payment: envelope }))).toBe('re: task')
  const { taken } = seller.deps.deferred
  seller.deps.deferred.taken = async () => {
    seller.deps.deferred.taken = taken
    throw new StoreError('STORE_AWAY', 'the database cannot be reached')
  }
  expect(told(await peer.askResult(envelope))).toBe('re: task')
  expect(told(await peer.askResult(envelope))).toBe('re: task')
})
