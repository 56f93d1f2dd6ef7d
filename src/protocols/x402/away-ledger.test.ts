/** A seller whose ledger is away for a while does not know what became of a payment, and says nothing about it (T6). */
import { afterEach, expect, test } from 'vitest'
import { failNext } from '../../../test/support/fail-next.ts'
import { signed } from '../../../test/support/payments.ts'
import { until } from '../../../test/support/until.ts'
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
  failNext(seller.deps.deferred, 'taken')
  expect(told(await peer.askResult(envelope))).toBe('re: task')
  expect(told(await peer.askResult(envelope))).toBe('re: task')
})

/** Stores what the first claim says, or nothing, and loses the answer. The ledger is away after it. */
function loseClaim({ isStored }: { isStored: boolean }) {
  const then = () => {
    isAway = true
  }
  failNext(seller.deps.payments, 'claimExposed', { code: 'STORE_IN_DOUBT', isStored, then })
}

test('T6 a payment whose claim was lost in mid-commit is voided when the ledger is back, and nobody claims it meanwhile', async () => {
  const peer = await start()
  const { payments } = seller.deps
  const { abandon } = payments
  let isRefused = true
  payments.abandon = async (...asked) => {
    if (isRefused) throw new StoreError('STORE_AWAY', 'the database cannot be reached')
    return abandon(...asked)
  }
  const { envelope, paymentId } = signed(seller.clock.now())
  loseClaim({ isStored: true })
  expect(told(await peer.request({ payment: envelope }))).toBe('SETTLEMENT_FAILED')
  isAway = false
  expect(told(await peer.request({ payment: envelope }))).toBe('PAYMENT_NONCE_USED')
  const asked = peer.askResult(envelope)
  isRefused = false
  expect(told(await asked)).toBe('EXECUTION_FAILED')
  expect(await seller.payments.get(paymentId)).toMatchObject({ state: 'voided', ran: false })
  expect(told(await peer.request({ payment: envelope }))).toBe('PAYMENT_NONCE_USED')
  expect([seller.runs.length, seller.settlement.attempts.length, seller.deps.running.size]).toEqual([0, 0, 0])
  expect((await seller.payments.exposed(envelope.payer)).payments).toBe(0)
})

test('T6 a payment whose claim was lost and never stored buys its run afterwards', async () => {
  const peer = await start()
  const { envelope } = signed(seller.clock.now())
  loseClaim({ isStored: false })
  expect(told(await peer.request({ payment: envelope }))).toBe('SETTLEMENT_FAILED')
  const asked = peer.askResult(envelope)
  isAway = false
  expect(told(await asked)).toBe('PAYMENT_REQUIRED')
  expect(told(await peer.request({ payment: envelope }))).toBe('re: task')
  expect(seller.runs).toHaveLength(1)
})

test('T6 a claimed payment that cannot be put into the outbox before its run is voided when the ledger is back', async () => {
  const peer = await start({ settleFirst: true })
  const { claim } = seller.deps.payments
  seller.deps.payments.claim = async (...claimed) => {
    const isClaimed = await claim(...claimed)
    isAway = true
    return isClaimed
  }
  const { envelope, paymentId } = signed(seller.clock.now())
  expect(told(await peer.request({ payment: envelope }))).toBe('SETTLEMENT_FAILED')
  const asked = peer.askResult(envelope)
  isAway = false
  expect(told(await asked)).toBe('EXECUTION_FAILED')
  expect(await seller.payments.get(paymentId)).toMatchObject({ state: 'voided' })
  expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([0, 0])
})

test('T6 a payment that reached the outbox is not voided, although nobody has said so: its work is run once', async () => {
  const peer = await start({ settleFirst: true })
  failNext(seller.deps.payments, 'save', { code: 'STORE_IN_DOUBT', isStored: true })
  const { envelope, paymentId } = signed(seller.clock.now())
  expect(told(await peer.request({ payment: envelope }))).toBe('SETTLEMENT_FAILED')
  await until(async () => (await seller.payments.get(paymentId))?.state === 'settled' || seller.clock.advance(1_000))
  expect(told(await peer.askResult(envelope))).toBe('re: task')
  expect(seller.runs).toHaveLength(1)
})

test('T6 work that is done while the ledger is away is delivered and owed when it is back, and never voided', async () => {
  const peer = await start()
  const abandoned: unknown[] = []
  const { abandon } = seller.deps.payments
  seller.deps.payments.abandon = (...asked) => {
    abandoned.push(asked)
    return abandon(...asked)
  }
  seller.work = async () => {
    isAway = true
    return 'kept'
  }
  const { envelope, paymentId } = signed(seller.clock.now())
  expect(told(await peer.request({ payment: envelope }))).toBe('SETTLEMENT_FAILED')
  isAway = false
  expect(told(await peer.askResult(envelope))).toBe('kept')
  await until(async () => (await seller.payments.get(paymentId))?.state === 'settled' || seller.clock.advance(1_000))
  expect([seller.runs.length, abandoned, seller.deps.running.size]).toEqual([1, [], 0])
})

test('T6 a run that fails while the ledger is away is voided when it is back', async () => {
  const peer = await start()
  seller.work = async () => {
    isAway = true
    throw new Error('broken')
  }
  const { envelope, paymentId } = signed(seller.clock.now())
  expect(told(await peer.request({ payment: envelope }))).toBe('SETTLEMENT_FAILED')
  isAway = false
  expect(told(await peer.askResult(envelope))).toBe('EXECUTION_FAILED')
  expect(await seller.payments.get(paymentId)).toMatchObject({ state: 'voided' })
  expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([1, 0])
})

test('T6 work that was stored, although nobody has said so, is settled once', async () => {
  const peer = await start()
  const { payments } = seller.deps
  const { deliver } = payments
  let deliveries = 0
  payments.deliver = async (...step) => {
    deliveries += 1
    await deliver(...step)
    if (deliveries === 1) throw new StoreError('STORE_IN_DOUBT', 'the connection was lost')
  }
  const { envelope, paymentId } = signed(seller.clock.now())
  expect(told(await peer.request({ payment: envelope }))).toBe('SETTLEMENT_FAILED')
  await until(async () => (await seller.payments.get(paymentId))?.state === 'settled' || seller.clock.advance(1_000))
  expect(told(await peer.askResult(envelope))).toBe('re: task')
  expect([seller.runs.length, seller.settlement.attempts.length, deliveries]).toEqual([1, 1, 1])
})
