/** T6: work on promises is bounded, and a payer whose promises were worth nothing settles first. */
import { describe, expect, test } from 'vitest'
import { FakeSettlement, unclear } from '../../../test/support/fake-settlement.ts'
import { signed, testWallet } from '../../../test/support/payments.ts'
import { startSeller } from '../../../test/support/started-seller.ts'
import { until } from '../../../test/support/until.ts'
import { base64, type TestSeller, told } from '../../../test/support/x402-seller.ts'
import { openDatabase } from '../../store/database.ts'

/** One preemptive purchase of a payer, each from a peer of its own. */
async function buy(seller: TestSeller, payer = 1): Promise<unknown> {
  const peer = await seller.connect(`peer-${payer}`)
  const { envelope } = signed(seller.clock.now(), { wallet: testWallet(payer) })
  return told(await peer.request({ payment: envelope, body: base64('task') }))
}
/** The facilitator's word is looked up on chain a little later (D50). */
async function chainShows(seller: TestSeller): Promise<void> {
  await until(async () => (await seller.payments.counts()).owed === 0 || seller.clock.advance(2_000))
  expect(seller.exposure.total).toBe(0n)
}
const refusedForGood = { moves: false, answer: { kind: 'refused', reason: 'insufficient_funds' } } as const

describe('T6 what is owed', () => {
  test('by one payer is bounded: beyond it the payment is settled before the agent runs', async () => {
    const seller = await startSeller({ exposure: { perPayerMax: 20_000n } })
    seller.settlement.usual = unclear
    expect([await buy(seller), await buy(seller), await buy(seller)]).toEqual([
      're: task',
      're: task',
      'SETTLEMENT_FAILED',
    ])
    expect(seller.runs).toHaveLength(2)
    // Another payer is none the worse for it.
    expect(await buy(seller, 2)).toBe('re: task')
  })

  test('by all together is bounded, whoever asks', async () => {
    const seller = await startSeller({ exposure: { totalMax: 20_000n } })
    seller.settlement.usual = unclear
    expect([await buy(seller, 1), await buy(seller, 2), await buy(seller, 3)]).toEqual([
      're: task',
      're: task',
      'SETTLEMENT_FAILED',
    ])
    expect(seller.runs).toHaveLength(2)
  })

  test('counts while agents run: a hundred signatures at once bring no more', async () => {
    const seller = await startSeller({
      exposure: { perPayerMax: 50_000n },
      slots: { concurrentMax: 100, waitingMax: 100 },
    })
    seller.settlement.usual = unclear
    const answers = await Promise.all(Array.from({ length: 100 }, () => buy(seller)))
    expect(answers.filter((answer) => answer === 're: task')).toHaveLength(5)
    expect(seller.runs).toHaveLength(5)
  })

  test('is given back by a settlement, by a failed run and by a refused claim', async () => {
    const seller = await startSeller({ exposure: { perPayerMax: 10_000n } })
    for (let count = 0; count < 3; count++) {
      expect(await buy(seller)).toBe('re: task')
      await chainShows(seller)
    }
    seller.work = () => Promise.reject(new Error('broken'))
    for (let count = 0; count < 3; count++) expect(await buy(seller)).toBe('EXECUTION_FAILED')
    expect(seller.exposure.total).toBe(0n)
    const { envelope } = signed(seller.clock.now())
    seller.work = undefined
    seller.settlement.usual = unclear
    const again = async () => told(await (await seller.connect()).request({ payment: envelope, body: base64('task') }))
    expect([await again(), await again()]).toEqual(['re: task', 'PAYMENT_NONCE_USED'])
    expect(seller.exposure.total).toBe(10_000n)
  })

  test('T17 is found again after a restart', async () => {
    const settlement = new FakeSettlement()
    settlement.usual = unclear
    const database = openDatabase({ path: ':memory:' })
    const options = { database, settlement, exposure: { perPayerMax: 10_000n } }
    const seller = await startSeller(options)
    expect(await buy(seller)).toBe('re: task')
    await seller.stop()
    const again = await startSeller(options)
    expect(again.exposure.total).toBe(10_000n)
    expect(await buy(again)).toBe('SETTLEMENT_FAILED')
  })
})

describe('T6 a payer whose payment was lost', () => {
  test('settles first, after a restart too, until enough time has passed', async () => {
    const settlement = new FakeSettlement()
    const database = openDatabase({ path: ':memory:' })
    const seller = await startSeller({ database, settlement })
    settlement.plan.push(refusedForGood)
    expect(await buy(seller)).toBe('re: task')
    await until(async () => (await seller.payments.counts()).unsettled === 1)

    settlement.usual = unclear
    expect([await buy(seller), await buy(seller, 2)]).toEqual(['SETTLEMENT_FAILED', 're: task'])
    await seller.stop()
    const again = await startSeller({ database, settlement, clock: seller.clock })
    expect(await buy(again)).toBe('SETTLEMENT_FAILED')
    settlement.usual = { moves: true, answer: 'the transaction' }
    expect(await buy(again)).toBe('re: task')
    again.clock.advance(8 * 24 * 60 * 60 * 1000)
    settlement.usual = unclear
    expect(await buy(again)).toBe('re: task')
  })
})

test('D45 the seller’s own trouble with its facilitator makes no payer settle first, after a restart neither', async () => {
  const settlement = new FakeSettlement()
  const database = openDatabase({ path: ':memory:' })
  const seller = await startSeller({ database, settlement })
  settlement.usual = unclear
  expect(await buy(seller)).toBe('re: task')
  await until(async () => {
    seller.clock.advance(1_000)
    return (await seller.payments.counts()).unsettled === 1
  })
  expect(await buy(seller)).toBe('re: task')
  await seller.stop()
  const again = await startSeller({ database, settlement, clock: seller.clock })
  expect(await buy(again)).toBe('re: task')
})

test('T6 T17 accounts that cost nothing get no more than all together may, one after the other and after a restart', async () => {
  const settlement = new FakeSettlement()
  settlement.usual = refusedForGood
  const options = { database: openDatabase({ path: ':memory:' }), settlement, exposure: { totalMax: 20_000n } }
  const seller = await startSeller(options)
  for (let payer = 1; payer <= 4; payer++) {
    expect(await buy(seller, payer)).toBe(payer <= 2 ? 're: task' : 'SETTLEMENT_FAILED')
    // Those that never ran are no loss (D42).
    await until(async () => (await seller.payments.counts()).unsettled === Math.min(payer, 2))
  }
  expect(seller.runs).toHaveLength(2)
  await seller.stop()
  const again = await startSeller({ ...options, clock: seller.clock })
  expect(await buy(again, 5)).toBe('SETTLEMENT_FAILED')
  // Who pays is served as ever.
  settlement.usual = { moves: true, answer: 'the transaction' }
  expect(await buy(again, 6)).toBe('re: task')
  again.clock.advance(25 * 60 * 60 * 1000)
  settlement.usual = unclear
  expect(await buy(again, 7)).toBe('re: task')
})

const invented = { moves: false, answer: 'the transaction' } as const

describe('D50 where there is an RPC', () => {
  test('a hash that a facilitator invents frees no exposure, after a restart too', async () => {
    const settlement = new FakeSettlement()
    settlement.usual = invented
    const options = { settlement, database: openDatabase({ path: ':memory:' }), exposure: { perPayerMax: 20_000n } }
    const seller = await startSeller(options)
    expect([await buy(seller), await buy(seller), await buy(seller)]).toEqual([
      're: task',
      're: task',
      'SETTLEMENT_FAILED',
    ])
    expect(seller.exposure.total).toBe(20_000n)
    await seller.stop()
    const again = await startSeller({ ...options, clock: seller.clock })
    expect(again.exposure.total).toBe(20_000n)
  })

  test('settle-first runs nothing for a hash that a facilitator invents', async () => {
    const seller = await startSeller({ settleFirst: true })
    seller.settlement.usual = invented
    expect([await buy(seller), await buy(seller, 2)]).toEqual(['SETTLEMENT_FAILED', 'SETTLEMENT_FAILED'])
    expect(seller.runs).toEqual([])
    seller.settlement.usual = { moves: true, answer: 'the transaction' }
    expect(await buy(seller, 3)).toBe('re: task')
  })

  test('T5 a cheap run is not begun for an authorization that was spent elsewhere, settled first or not', async () => {
    for (const settleFirst of [false, true]) {
      const seller = await startSeller({ settleFirst })
      const { envelope } = signed(seller.clock.now())
      seller.settlement.pay(envelope.payload!.authorization)
      const peer = await seller.connect()
      expect(told(await peer.request({ payment: envelope }))).toBe('PAYMENT_INVALID')
      expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([0, 0])
    }
  })

  test('T5 an authorization that another node spends during the run is lost, and not booked as settled', async () => {
    const seller = await startSeller()
    const { envelope, paymentId } = signed(seller.clock.now())
    seller.work = async () => {
      seller.settlement.pay(envelope.payload!.authorization)
      return 'done'
    }
    const peer = await seller.connect()
    expect(told(await peer.request({ payment: envelope }))).toBe('done')
    await until(async () => (await seller.payments.get(paymentId))?.state === 'unsettled')
    expect((await seller.payments.get(paymentId))?.error).toContain('it paid for another run')
    expect(seller.settlement.attempts).toEqual([])
    seller.work = undefined
    seller.settlement.usual = unclear
    expect(await buy(seller)).toBe('SETTLEMENT_FAILED')
  })

  test('a replay of what this node has settled is told as used, whatever the chain says', async () => {
    const seller = await startSeller()
    const { envelope } = signed(seller.clock.now())
    const peer = await seller.connect()
    expect(told(await peer.request({ payment: envelope }))).toBe('re: task')
    await chainShows(seller)
    expect(told(await peer.request({ payment: envelope }))).toBe('PAYMENT_NONCE_USED')
  })

  test('T15 a cheap run does not wait for an RPC that is away', async () => {
    const seller = await startSeller()
    seller.settlement.chainIsDown = true
    expect(await buy(seller)).toBe('re: task')
  })
})

describe('T6 a dear run', () => {
  const dear = { checkFrom: 10_000n }

  test('is not begun for an account that does not hold all it has signed for, and nothing is consumed', async () => {
    const seller = await startSeller({ exposure: dear })
    seller.settlement.usual = unclear
    seller.balance = 19_999n
    expect([await buy(seller), await buy(seller)]).toEqual(['re: task', 'PAYMENT_INVALID'])
    seller.balance = 20_000n
    expect(await buy(seller)).toBe('re: task')
    expect([seller.runs.length, seller.exposure.total]).toEqual([2, 20_000n])
  })

  test('T4 a refusal leaves the challenge good for another try', async () => {
    const seller = await startSeller({ exposure: dear })
    const peer = await seller.connect()
    const { payment, correlation_id } = await peer.challenged()
    seller.balance = 0n
    expect(told(await peer.paidRequest(payment, { correlation_id }))).toBe('PAYMENT_INVALID')
    seller.balance = 10_000n
    expect(told(await peer.paidRequest(payment, { correlation_id }))).toBe('re: task')
  })

  test('is not begun for an authorization that was canceled', async () => {
    const seller = await startSeller({ exposure: dear })
    const { envelope } = signed(seller.clock.now())
    const { from, nonce } = envelope.payload!.authorization
    seller.settlement.setUse(from, nonce, { state: 'canceled' })
    const peer = await seller.connect()
    expect(told(await peer.request({ payment: envelope }))).toBe('PAYMENT_INVALID')
    expect(seller.runs).toEqual([])
  })

  test('T15 D50 is settled first where the chain gives no answer, and runs once the chain shows the transfer', async () => {
    const seller = await startSeller({ exposure: dear })
    seller.settlement.chainIsDown = true
    const { envelope } = signed(seller.clock.now())
    const peer = await seller.connect()
    expect(told(await peer.request({ payment: envelope, body: base64('task') }))).toBe('SETTLEMENT_FAILED')
    expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([0, 1])
    seller.settlement.chainIsDown = false
    seller.clock.advance(60_000)
    await until(async () => (await seller.payments.counts()).owed === 0)
    expect(told(await peer.askResult(envelope))).toBe('re: task')
  })
})

test('T19 whoever signs on an empty account leaves no task on the disk of a seller that settles first', async () => {
  const seller = await startSeller({ settleFirst: true })
  seller.settlement.usual = refusedForGood
  const { envelope, paymentId: id } = signed(seller.clock.now())
  const peer = await seller.connect()
  expect(told(await peer.request({ payment: envelope, body: base64('x'.repeat(100_000)) }))).toBe('SETTLEMENT_FAILED')
  await until(async () => (await seller.payments.get(id))?.state === 'unsettled')
  expect(await seller.payments.get(id)).toMatchObject({ state: 'unsettled', task: '' })
  // Nothing was done for it: there is nothing to settle either, and it is no loss.
  expect(await seller.payments.reopen({ id, state: 'owed' }, seller.clock.now())).toBe(false)
  expect(await seller.payments.lost(0, { slotMs: 1000, payersMax: 10 })).toEqual({ slots: [], payers: [] })
  const asked = await peer.request({ method: 'result', payment: envelope, body: '' })
  expect(told(asked)).toBe('SETTLEMENT_FAILED')
})

describe('whoever the operator has blocked', () => {
  test('is not served, over either protocol', async () => {
    const seller = await startSeller({ blocked: ['peer-1'] })
    expect([await buy(seller, 1), await buy(seller, 2)]).toEqual(['UNKNOWN_RESOURCE', 're: task'])
    expect(seller.runs).toHaveLength(1)
  })

  test.each([false, true])('pays for nothing, from whichever peer; --settle-first: %s', async (settleFirst) => {
    const blocked = [testWallet(1).address.toUpperCase().replace('0X', '0x')]
    const seller = await startSeller({ blocked, settleFirst })
    expect([await buy(seller, 1), await buy(seller, 2)]).toEqual(['PAYMENT_INVALID', 're: task'])
  })
})
