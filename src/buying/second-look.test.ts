import { afterEach, describe, expect, test } from 'vitest'
import { FakeSettlement } from '../../test/support/fake-settlement.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { randomHex } from '../../test/support/payments.ts'
import { ScriptedSeller, type ScriptedStream } from '../../test/support/scripted-seller.ts'
import { TestBuyer, type TestBuyerOptions } from '../../test/support/test-buyer.ts'
import { until } from '../../test/support/until.ts'
import { signedPayment } from '../ledger/payment-view.ts'
import { openDatabase } from '../store/database.ts'
import { heldByAuthorizations } from '../store/held.ts'

const buyers: TestBuyer[] = []
afterEach(async () => {
  await Promise.all(buyers.splice(0).map(({ recovery }) => recovery.stop()))
})

type Answer = (stream: ScriptedStream, process: AbortController) => Promise<void>

/** A purchase, and the chain at a time of the test's choosing. `answer`: what its seller answers the payment with. */
async function bought(answer: Answer) {
  const clock = new HandClock()
  const settlement = new FakeSettlement()
  const database = openDatabase({ path: ':memory:' })
  const process = new AbortController()
  const selling = new ScriptedSeller(async (stream) => {
    await stream.challenge(await stream.next())
    await answer(stream, process)
  })
  const kept = new ScriptedSeller(async (stream) => stream.respond(await stream.next()))
  await new TestBuyer({ clock, database, open: selling.open }).execute({ signal: process.signal }).catch(() => {})
  // As after a restart: nobody waits for the answer any more.
  let open: TestBuyerOptions['open'] = () => Promise.reject(new Error('the seller is away'))
  const buyer = new TestBuyer({ clock, database, open: (...args) => open(...args), chain: settlement.chain })
  buyers.push(buyer)
  const { reservation } = (await buyer.ledger())[0]!
  const { orderId, validBeforeSeconds } = reservation!
  const { authorization } = reservation!.envelope.payload!
  const view = async () => signedPayment((await buyer.purchases.reservationOf(orderId))!)
  const now = async () => (await buyer.ledger())[0]!
  /** So long after the window, as a sweep of recovery finds it. */
  const sweepAt = async (afterMs: number, seen: () => Promise<boolean>) => {
    clock.set(validBeforeSeconds * 1000 + afterMs)
    await buyer.recovery.start()
    await until(seen)
  }
  const comesBack = () => {
    open = kept.open
  }
  return { buyer, clock, settlement, authorization, orderId, view, now, sweepAt, comesBack }
}
/** The buyer's process ends while its seller has the payment and says nothing. */
const silent: Answer = async (stream, process) => {
  await stream.next()
  process.abort()
}
const delivered = (txHash = randomHex()) => {
  return async (stream: ScriptedStream) => stream.respond(await stream.next(), { tx_hash: txHash })
}
const dueAt = (buyer: TestBuyer, orderId: string) =>
  (
    buyer.database
      .prepare('SELECT look_at FROM authorizations a JOIN orders o ON o.no = a.order_no WHERE o.id = ?')
      .get(orderId) as { look_at: number | null }
  ).look_at

describe('T13: what counts as not charged on the answer of a node that lags', () => {
  test('is taken back when the chain shows that it was charged, and its seller is asked for the result', async () => {
    const { buyer, clock, settlement, authorization, view, now, sweepAt } = await bought(silent)
    await sweepAt(31_000, async () => (await now()).reservation?.state === 'released')
    expect([await buyer.spent(), (await now()).order.error?.message]).toEqual([
      0n,
      expect.stringMatching(/nothing was charged/),
    ])
    const txHash = settlement.pay(authorization)
    clock.advance(61_000)
    buyer.recovery.soon()
    await until(async () => (await now()).reservation?.state === 'spent')
    await until(async () => (await now()).order.error?.message.includes('charged after all') === true)
    expect(await view()).toMatchObject({ settlement: 'settled', tx_hash: txHash })
    expect(await buyer.spent()).toBe(10_000n)
    expect(await buyer.purchases.open('unreceived', { network: 'eip155:84532', limit: 9 })).toHaveLength(1)
  })

  test('and brings the result that its seller kept', async () => {
    const { buyer, settlement, authorization, now, sweepAt, comesBack, orderId } = await bought(silent)
    await sweepAt(31_000, async () => (await now()).reservation?.state === 'released')
    settlement.pay(authorization)
    comesBack()
    await buyer.recovery.look(orderId)
    expect(await now()).toMatchObject({
      order: { status: 'completed', output: 'result' },
      reservation: { state: 'spent' },
    })
    expect(await buyer.spent()).toBe(10_000n)
  })

  test('counts again where the result was delivered, too', async () => {
    const { buyer, clock, settlement, authorization, view, now, sweepAt } = await bought(delivered())
    await sweepAt(31_000, async () => (await now()).reservation?.state === 'released')
    expect(await buyer.spent()).toBe(0n)
    const txHash = settlement.pay(authorization)
    clock.advance(61_000)
    buyer.recovery.soon()
    await until(async () => (await now()).reservation?.state === 'spent')
    expect([(await view()).settlement, (await view()).tx_hash, await buyer.spent()]).toEqual([
      'settled',
      txHash,
      10_000n,
    ])
    expect((await now()).order.status).toBe('completed')
  })

  test('is final when the chain says the same a quarter of an hour after the window, and not before', async () => {
    const { buyer, clock, settlement, now, sweepAt, orderId } = await bought(silent)
    await sweepAt(31_000, async () => (await now()).reservation?.state === 'released')
    const endMs = (await now()).reservation!.validBeforeSeconds * 1000
    clock.advance(61_000)
    buyer.recovery.soon()
    await until(() => dueAt(buyer, orderId) === endMs + 15 * 60_000)
    settlement.chainIsDown = true
    clock.set(endMs + 15 * 60_000)
    buyer.recovery.soon()
    await until(() => dueAt(buyer, orderId) === endMs + 16 * 60_000)
    settlement.chainIsDown = false
    clock.set(endMs + 16 * 60_000)
    buyer.recovery.soon()
    await until(() => dueAt(buyer, orderId) === null)
    expect([(await now()).reservation?.state, await buyer.spent()]).toEqual(['released', 0n])
  })
})

describe('T13: a chain that takes back what it has shown', () => {
  test('makes a purchase the claim of its seller again, and then not charged', async () => {
    const txHash = randomHex()
    const { buyer, clock, settlement, authorization, view, now, sweepAt } = await bought(delivered(txHash))
    settlement.pay(authorization)
    await sweepAt(-20_000, async () => (await view()).settlement === 'settled')
    settlement.setUse(authorization.from, authorization.nonce, { state: 'unused' })
    clock.set((await now()).reservation!.validBeforeSeconds * 1000 + 61_000)
    buyer.recovery.soon()
    await until(async () => (await view()).settlement === 'claimed')
    clock.advance(601_000)
    buyer.recovery.soon()
    await until(async () => (await view()).settlement === 'released')
    expect(await buyer.spent()).toBe(0n)
  })

  test('and shows it in another transaction then: the payment names that one', async () => {
    const { buyer, clock, settlement, authorization, view, now, sweepAt, orderId } = await bought(delivered())
    settlement.pay(authorization)
    await sweepAt(-20_000, async () => (await view()).settlement === 'settled')
    settlement.setUse(authorization.from, authorization.nonce, { state: 'unused' })
    // Its seller settles it again.
    const again = settlement.pay(authorization)
    clock.set((await now()).reservation!.validBeforeSeconds * 1000 + 61_000)
    buyer.recovery.soon()
    await until(() => dueAt(buyer, orderId) === null)
    expect(await view()).toMatchObject({ settlement: 'settled', tx_hash: again })
    expect(await buyer.spent()).toBe(10_000n)
  })

  test('is asked once at a depth, and what it still shows is final', async () => {
    const { buyer, clock, settlement, authorization, view, now, sweepAt, orderId } = await bought(delivered())
    settlement.pay(authorization)
    await sweepAt(-20_000, async () => (await view()).settlement === 'settled')
    const endMs = (await now()).reservation!.validBeforeSeconds * 1000
    expect(dueAt(buyer, orderId)).toBe(endMs + 60_000)
    clock.set(endMs + 61_000)
    buyer.recovery.soon()
    await until(() => dueAt(buyer, orderId) === null)
    expect([(await view()).settlement, await buyer.spent()]).toEqual(['settled', 10_000n])
  })
})

test('D42: a purchase is confirmed although its node was off for more than a week, so it is held no longer', async () => {
  const { buyer, settlement, authorization, view, sweepAt } = await bought(delivered())
  settlement.pay(authorization)
  expect(await heldByAuthorizations(buyer.database, 'eip155:84532')).toBe(10_000n)
  await sweepAt(9 * 24 * 60 * 60 * 1000, async () => (await view()).settlement === 'settled')
  expect(await heldByAuthorizations(buyer.database, 'eip155:84532')).toBe(0n)
})
