/** ADR-31: a challenge that one process of a seller has issued, paid at another one. */
import { randomBytes, randomUUID } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createChallengeSeal } from '../../src/payments/challenge-seal.ts'
import type { PaymentEnvelope } from '../../src/schema/payment.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { unclear } from '../support/fake-settlement.ts'
import { toNextStep } from '../support/next-step.ts'
import { agentId, randomHex, requirements, signed, testWallet } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { base64, type TestPeer, TestSeller, told } from '../support/x402-seller.ts'
import { runsOf, startSellers } from '../support/x402-sellers.ts'

type Challenged = { payment: PaymentEnvelope; correlation_id: string }
const pay = async (peer: TestPeer, { payment, correlation_id }: Challenged, task = 'task') =>
  told(await peer.paidRequest(payment, { correlation_id, body: base64(task) }))

describe('a buyer whose next stream goes to another process', () => {
  test('buys under the challenge of the first, also when that has died', async () => {
    const [a, b] = await startSellers(2)
    const asked = await (await a!.connect()).challenged()
    await a!.stop()
    expect(await pay(await b!.connect(), asked)).toBe('re: task')
    expect([runsOf([a!]), runsOf([b!])]).toEqual([0, 1])
    expect((await b!.payments.get(asked.paymentId))?.challengeNonce).toBe(asked.payment.server_nonce)
  })

  test('buys under it at the same process after a restart', async () => {
    const [a, b] = await startSellers(2)
    const asked = await (await a!.connect()).challenged()
    const again = await new TestSeller({ database: b!.database, clock: a!.clock }).start()
    onTestFinished(() => again.stop())
    expect(await pay(await again.connect(), asked)).toBe('re: task')
  })

  test('that wraps its task as the original node does buys too, and gets a wrapped answer', async () => {
    const [a, b] = await startSellers(2)
    const asked = await (await a!.connect()).challenged()
    const task = JSON.stringify({ resource: agentId, input: 'wrapped' })
    expect(await pay(await b!.connect(), asked, task)).toBe('{"output":"re: wrapped"}')
  })

  test('D39 and pays what was answered with 2007 again there gets its result, and no second run', async () => {
    const [a, b] = await startSellers(2, { settleFirst: true })
    a!.settlement.plan.push(unclear)
    const asked = await (await a!.connect()).challenged()
    expect(await pay(await a!.connect(), asked)).toBe('SETTLEMENT_FAILED')
    await until(async () => (await a!.payments.get(asked.paymentId))?.state === 'settled' || toNextStep(a!))
    const peer = await b!.connect()
    await until(async () => (await pay(peer, asked)) === 're: task')
    expect(runsOf([a!, b!])).toBe(1)
  })
})

describe('T5 one challenge at several processes', () => {
  test('with one payment at the same instant buys one run', async () => {
    const sellers = await startSellers(3)
    const peers = await Promise.all(sellers.map((seller) => seller.connect()))
    for (let round = 1; round <= 5; round++) {
      const asked = await peers[0]!.challenged()
      const answers = await Promise.all(peers.map((peer) => pay(peer, asked)))
      expect(answers.toSorted()).toEqual(['PAYMENT_NONCE_USED', 'PAYMENT_NONCE_USED', 're: task'])
      expect(runsOf(sellers)).toBe(round)
    }
  })

  test('with two authorizations at the same instant buys one run, and charges one', async () => {
    const sellers = await startSellers(2)
    const peers = await Promise.all(sellers.map((seller) => seller.connect()))
    for (let round = 1; round <= 5; round++) {
      const { payment, correlation_id } = await peers[0]!.challenged()
      const serverNonce = payment.server_nonce as Hex
      const { envelope } = signed(sellers[0]!.clock.now(), { serverNonce, authorizationNonce: randomHex() })
      const answers = await Promise.all([
        pay(peers[0]!, { payment, correlation_id }),
        pay(peers[1]!, { payment: envelope, correlation_id }),
      ])
      expect(answers.toSorted()).toEqual(['PAYMENT_NONCE_USED', 're: task'])
      expect([runsOf(sellers), sellers[0]!.settlement.attempts.length]).toEqual([round, round])
    }
  })

  test('T17 that was paid is used for good, wherever it comes next', async () => {
    const sellers = await startSellers(3)
    const [a, b, c] = await Promise.all(sellers.map((seller) => seller.connect()))
    const asked = await a!.challenged()
    expect(await pay(b!, asked)).toBe('re: task')
    const { envelope } = signed(sellers[0]!.clock.now(), {
      serverNonce: asked.payment.server_nonce as Hex,
      wallet: testWallet(2),
    })
    for (const peer of [a!, b!, c!]) {
      expect(await pay(peer, asked)).toBe('PAYMENT_NONCE_USED')
      expect(await pay(peer, { ...asked, payment: envelope })).toBe('PAYMENT_NONCE_USED')
    }
    expect(runsOf(sellers)).toBe(1)
  })
})

describe('T4 at another process nothing is sold for', () => {
  test.each<[string, unknown, (asked: Challenged) => Challenged]>([
    [
      'a forged challenge',
      'PAYMENT_NONCE_MISMATCH',
      ({ correlation_id }) => ({ correlation_id, payment: signed(Date.now(), { serverNonce: randomHex() }).envelope }),
    ],
    ['a changed one', 'PAYMENT_NONCE_MISMATCH', (asked) => under(asked, (nonce) => `0xffff${nonce.slice(6)}`)],
    ['another correlation id', 'PAYMENT_NONCE_MISMATCH', (asked) => ({ ...asked, correlation_id: randomUUID() })],
  ])('%s', async (_what, error, change) => {
    const [a, b] = await startSellers(2)
    const asked = await (await a!.connect()).challenged()
    expect(await pay(await b!.connect(), change(asked))).toBe(error)
    expect(runsOf([a!, b!])).toBe(0)
    // Nothing was consumed.
    expect(await pay(await b!.connect(), asked)).toBe('re: task')
  })

  test('the challenge of another peer, and that peer can still use it', async () => {
    const [a, b] = await startSellers(2)
    const asked = await (await a!.connect('buyer')).challenged()
    expect(await pay(await b!.connect('mallory'), asked)).toBe('PAYMENT_NONCE_MISMATCH')
    expect(await pay(await b!.connect('buyer'), asked)).toBe('re: task')
  })

  test('an expired one', async () => {
    const [a, b] = await startSellers(2)
    const asked = await (await a!.connect()).challenged()
    a!.clock.advance(300_000)
    expect(await pay(await b!.connect(), asked)).toBe('PAYMENT_NONCE_EXPIRED')
  })

  test('a payment of another price, also if the price was another when it was asked for', async () => {
    const [a, b] = await startSellers(2)
    const asked = await (await a!.connect()).challenged()
    b!.addAgent({ amount: 20_000n })
    expect(await pay(await b!.connect(), asked)).toBe('PAYMENT_AMOUNT_WRONG')
    const serverNonce = asked.payment.server_nonce as Hex
    const { envelope } = signed(a!.clock.now(), { serverNonce, requirements: requirements({ amount: 1n }) })
    expect(await pay(await b!.connect(), { ...asked, payment: envelope })).toBe('PAYMENT_AMOUNT_WRONG')
    expect(runsOf([a!, b!])).toBe(0)
  })

  test('an agent that it does not have, and the challenge of one agent buys no other', async () => {
    const [a, b] = await startSellers(2)
    a!.addAgent({ id: 'cheap', amount: 10_000n })
    const asked = await (await a!.connect()).challenged({ resource: 'cheap' })
    expect(await pay(await b!.connect(), asked)).toBe('PAYMENT_NONCE_MISMATCH')
    const ran: string[] = []
    const run = (id: string) => async () => {
      ran.push(id)
      return id
    }
    b!.addAgent({ id: agentId, run: run(agentId) })
    b!.addAgent({ id: 'cheap', run: run('cheap') })
    expect(await pay(await b!.connect(), asked)).toBe('cheap')
    expect(ran).toEqual(['cheap'])
  })

  test('the challenge of another seller', async () => {
    const [a] = await startSellers(1, { seal: createChallengeSeal(Buffer.from('another seller'), randomBytes) })
    const [b] = await startSellers(1)
    const asked = await (await a!.connect()).challenged()
    expect(await pay(await b!.connect(), asked)).toBe('PAYMENT_NONCE_MISMATCH')
  })
})

/** The same payment under another challenge. */
function under({ payment, correlation_id }: Challenged, change: (nonce: string) => string): Challenged {
  return { correlation_id, payment: { ...payment, server_nonce: change(payment.server_nonce) as Hex } }
}
