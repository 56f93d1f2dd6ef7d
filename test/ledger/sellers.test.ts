/** Several processes of one seller on one ledger: what each does for a payment that another one has. */
import { describe, expect, test } from 'vitest'
import { untilHere } from '../../src/protocols/x402/elsewhere.ts'
import { unclear } from '../support/fake-settlement.ts'
import { HandClock } from '../support/hand-clock.ts'
import { toNextStep } from '../support/next-step.ts'
import { signed, testWallet } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { base64, type TestSeller, told } from '../support/x402-seller.ts'
import { runsOf, startSellers } from '../support/x402-sellers.ts'

const PRICE = 10_000n

async function buy(seller: TestSeller, payer: number, changes: object = {}): Promise<unknown> {
  const peer = await seller.connect(`peer-${payer}`)
  const { envelope } = signed(seller.clock.now(), { wallet: testWallet(payer) })
  return told(await peer.request({ payment: envelope, body: base64('task'), ...changes }))
}

describe('T5 one authorization at several processes', () => {
  test('at the same instant buys one run, and each tells its result', async () => {
    const sellers = await startSellers(3)
    for (let round = 1; round <= 5; round++) {
      const { envelope } = signed(sellers[0]!.clock.now(), { wallet: testWallet(round) })
      const peers = await Promise.all(sellers.map((seller) => seller.connect('buyer')))
      const answers = await Promise.all(
        peers.map(async (peer) => told(await peer.request({ payment: envelope, body: base64('task') }))),
      )
      expect(answers.toSorted()).toEqual(['PAYMENT_NONCE_USED', 'PAYMENT_NONCE_USED', 're: task'])
      expect(runsOf(sellers)).toBe(round)
      expect(await Promise.all(peers.map(async (peer) => told(await peer.askResult(envelope))))).toEqual(
        sellers.map(() => 're: task'),
      )
    }
    expect(runsOf(sellers)).toBe(5)
  })

  test.each([false, true])(
    'is not told as failed while another process runs it; --settle-first: %s',
    async (settleFirst) => {
      const [first, second] = await startSellers(2, { settleFirst })
      const { promise: work, resolve: finish } = Promise.withResolvers<string>()
      first!.work = () => work
      const { envelope, paymentId } = signed(first!.clock.now())
      const bought = (await first!.connect('buyer')).request({ payment: envelope, body: base64('task') })
      await until(() => first!.runs.length === 1)
      let looks = 0
      const { isElsewhere } = second!.deps.payments
      second!.deps.payments.isElsewhere = (id) => {
        looks++
        return isElsewhere(id)
      }
      const asked = (await second!.connect('buyer')).askResult(envelope)
      await until(() => looks >= 2)
      // The buyer sends the same payment again, too.
      const sentAgain = (await second!.connect('buyer')).request({ payment: envelope, body: base64('task') })
      expect(told(await sentAgain)).toBe('PAYMENT_NONCE_USED')
      finish('done')
      expect([told(await bought), told(await asked)]).toEqual(['done', 'done'])
      expect([runsOf([first!, second!]), (await second!.payments.get(paymentId))?.ran]).toEqual([1, true])
    },
  )

  test('is answered with 2007 if the other process takes long', async () => {
    const [first, second] = await startSellers(2)
    first!.work = () => Promise.withResolvers<string>().promise
    const { envelope, paymentId } = signed(first!.clock.now())
    void (await first!.connect('buyer')).request({ payment: envelope, body: base64('task') }).catch(() => {})
    await until(() => first!.runs.length === 1)
    const stored = await second!.payments.get(paymentId)
    const waiting = untilHere(stored!, AbortSignal.timeout(60_000), { payments: second!.payments, waitMs: 0 })
    await expect(waiting).rejects.toMatchObject({ code: 'SETTLEMENT_FAILED' })
    // The process that has it does not wait for itself.
    const own = untilHere(stored!, AbortSignal.timeout(60_000), { payments: first!.payments, waitMs: 0 })
    expect(await own).toMatchObject({ state: 'authorized' })
  })

  test('D45 settled work whose run failed runs again at one process, whoever is asked', async () => {
    const sellers = await startSellers(3, { settleFirst: true })
    sellers[0]!.work = () => Promise.reject(new Error('broken'))
    const { envelope, paymentId } = signed(sellers[0]!.clock.now())
    const peer = await sellers[0]!.connect('buyer')
    expect(told(await peer.request({ payment: envelope, body: base64('task') }))).toBe('EXECUTION_FAILED')
    await until(async () => !(await sellers[1]!.payments.isElsewhere(paymentId)))
    const others = sellers.slice(1)
    const asked = others.map(async (seller) => told(await (await seller.connect('buyer')).askResult(envelope)))
    const answers = await Promise.all(asked)
    expect(answers).toContain('re: task')
    expect(runsOf(others)).toBe(1)
    for (const seller of sellers) {
      expect(told(await (await seller.connect('buyer')).askResult(envelope))).toBe('re: task')
    }
    expect(runsOf(others)).toBe(1)
  })
})

test('T7 D45 settled work that always fails is paced for all processes together, and after a restart', async () => {
  const clock = new HandClock()
  const [first, second, third] = await startSellers(3, { settleFirst: true, clock })
  const sellers = [first!, second!]
  for (const seller of [...sellers, third!]) seller.work = () => Promise.reject(new Error('broken'))
  const { envelope, paymentId } = signed(clock.now())
  const peers = await Promise.all(sellers.map((seller) => seller.connect('buyer')))
  expect(told(await peers[0]!.request({ payment: envelope, body: base64('task') }))).toBe('EXECUTION_FAILED')
  const ask = async (at: number) => {
    const peer = peers[at % 2]!
    // The process before lets go of the work just after its answer.
    await until(async () => !(await sellers[at % 2]!.payments.isElsewhere(paymentId)))
    return told(await peer.askResult(envelope))
  }
  for (let asked = 0; asked < 20; asked++) await ask(asked)
  expect([runsOf(sellers), await ask(0), await ask(1)]).toEqual([5, 'OVERLOADED', 'OVERLOADED'])
  // A process that has seen none of it, as after a restart.
  const stranger = await third!.connect('buyer')
  expect([told(await stranger.askResult(envelope)), third!.runs.length]).toEqual(['OVERLOADED', 0])
  for (const pauseMs of [5_000, 10_000, 20_000]) {
    clock.advance(pauseMs)
    expect([await ask(1), await ask(0)]).toEqual(['EXECUTION_FAILED', 'OVERLOADED'])
  }
  expect([runsOf(sellers), (await first!.payments.get(paymentId))?.failedRuns?.count]).toEqual([8, 8])
  clock.advance(40_000)
  second!.work = async () => 'at last'
  expect([await ask(1), await ask(0)]).toEqual(['at last', 'at last'])
})

describe('T6 unsettled work at several processes', () => {
  test('of one payer is bounded for all of them together', async () => {
    const sellers = await startSellers(3, {
      exposure: { perPayerMax: 20n * PRICE },
      slots: { concurrentMax: 100, waitingMax: 100 },
    })
    sellers[0]!.settlement.usual = unclear
    const answers = await Promise.all(Array.from({ length: 60 }, (_, n) => buy(sellers[n % 3]!, 1)))
    const ran = answers.filter((answer) => answer === 're: task').length
    expect(ran).toBe(runsOf(sellers))
    expect(ran).toBeLessThanOrEqual(20)
    // What claims took beside one another is free again: the limit is used up, and no more.
    for (let n = ran; n < 20; n++) expect(await buy(sellers[n % 3]!, 1)).toBe('re: task')
    for (const seller of sellers) expect(await buy(seller, 1)).toBe('SETTLEMENT_FAILED')
    expect([runsOf(sellers), await buy(sellers[1]!, 2)]).toEqual([20, 're: task'])
  })

  test('of all payers is bounded for all of them together, and a settlement at one makes room at another', async () => {
    const sellers = await startSellers(2, { exposure: { totalMax: 2n * PRICE } })
    const [first, second] = sellers
    first!.settlement.usual = unclear
    expect(await Promise.all([buy(first!, 1), buy(first!, 2)])).toEqual(['re: task', 're: task'])
    expect(await buy(second!, 3)).toBe('SETTLEMENT_FAILED')
    const refused = await buy(second!, 4, { allow_settle_first: false })
    expect(['EXECUTION_FAILED', 'PAYMENT_INVALID']).toContain(refused)
    expect(runsOf(sellers)).toBe(2)
    first!.settlement.usual = { moves: true, answer: 'the transaction' }
    await until(async () => (await first!.payments.counts()).owed === 0 || toNextStep(first!))
    expect(await buy(second!, 5)).toBe('re: task')
  })

  test('T28 a payer that one process lost settles first at the others', async () => {
    const [first, second] = await startSellers(2)
    first!.settlement.plan.push({ moves: false, answer: { kind: 'refused', reason: 'insufficient_funds' } })
    expect(await buy(first!, 1)).toBe('re: task')
    await until(async () => (await first!.payments.counts()).unsettled === 1)
    await first!.payments.recount()
    // Whatever is sold there tells the other process.
    expect(await buy(second!, 2)).toBe('re: task')
    first!.settlement.usual = unclear
    expect(await buy(second!, 1)).toBe('SETTLEMENT_FAILED')
    expect(second!.runs).toHaveLength(1)
  })

  test('whose end was not reported counts no longer than it is asked for', async () => {
    const [seller] = await startSellers(2, { exposure: { perPayerMax: PRICE } })
    const stored = seller!.deps.payments
    const { deliver } = stored
    // The commit is done, and its answer is lost: no event.
    stored.deliver = async (...change) => {
      const { payments } = seller!.records
      await payments.deliver(...change)
      throw new Error('the answer is lost')
    }
    seller!.work = () => Promise.reject(new Error('broken'))
    expect(await buy(seller!, 1)).toBe('EXECUTION_FAILED')
    expect(seller!.exposure.total).toBe(PRICE)
    stored.deliver = deliver
    seller!.work = undefined
    expect(await buy(seller!, 1)).toBe('re: task')
    await until(async () => (await seller!.payments.counts()).owed === 0 || toNextStep(seller!))
    await until(() => seller!.exposure.total === 0n)
  })
})
