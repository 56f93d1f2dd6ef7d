import { randomUUID } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import type { Hex } from '../../src/schema/primitives.ts'
import { createApprovalStore, type StoredApproval } from '../../src/store/approvals.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createPayments } from '../../src/store/payments.ts'
import { createPurchases, type Order, type Purchases, type Reservation } from '../../src/store/purchases.ts'
import { asEnded, onBothEngines } from '../support/ledgers.ts'
import { agentId, claim, requirements, signed } from '../support/payments.ts'

const now = Date.UTC(2026, 0, 1, 12)
const boughtFor = { agentId: 'front', agentName: 'Front', run: 'run' }
let database: LedgerDatabase
let purchases: Purchases

function order(changes: Partial<Order> = {}): Order {
  const blank = { output: undefined, error: undefined, correlationId: randomUUID() }
  const what = { id: randomUUID(), agentId, sellerId: 'seller', price: 1_000_000n, task: 'task' }
  return { ...what, ...blank, status: 'executing', createdAt: now, updatedAt: now, boughtFor, ...changes }
}

async function signedFor(changes: Partial<Order> = {}): Promise<Reservation & { order: Order }> {
  const bought = order(changes)
  const asked = requirements({ amount: 10_000n })
  const { paymentId, envelope } = signed(now, { requirements: asked })
  const validBeforeSeconds = Number(envelope.payload!.authorization.validBefore)
  const whose = { orderId: bought.id, agentId, sellerId: 'seller' }
  const reservation = { paymentId, ...whose, requirements: asked, envelope, amount: 10_000n, validBeforeSeconds }
  const budget = { day: '2026-01-01', limits: () => ({ day: 1_000_000n }) }
  expect(await purchases.reserve(bought, reservation, budget)).toBe('reserved')
  return { ...reservation, order: bought }
}

onBothEngines((open) => {
  beforeEach(async () => {
    database = await open()
    purchases = createPurchases(database)
  })

  test('D38 the last order of a run is found by the run, with the agent that it was bought for', async () => {
    expect(await purchases.orderOfRun('run')).toBeUndefined()
    await signedFor()
    const { order: last } = await signedFor()
    await signedFor({ boughtFor: { ...boughtFor, run: 'another' } })
    expect(await purchases.orderOfRun('run')).toEqual(last)
  })

  test('T6 purchases for sold runs are counted as long as the run is not paid for; not what is given back', async () => {
    const claims = createPayments(database)
    const count = (since = now) => purchases.unearnedFor('front', since)
    const forRun = (paymentId: Hex) => signedFor({ boughtFor: { ...boughtFor, paymentId } })
    const run = claim(now)
    await claims.claim(run, now)
    const bought = await forRun(run.id)
    await signedFor()
    expect([await count(), await count(now + 1)]).toEqual([1, 0])
    const paid = { paymentId: bought.paymentId, amount: 10_000n, txHash: undefined }
    await purchases.finish({ ...bought.order, status: 'completed', output: 'result' }, paid)
    expect(await count()).toBe(1)
    await claims.save({ id: run.id, state: 'settled', txHash: `0x${'1'.repeat(64)}` }, now)
    expect(await count()).toBe(0)
    const lost = await forRun(`0x${'2'.repeat(64)}`)
    expect(await count()).toBe(1)
    await purchases.resolve(lost, 'released', undefined, now)
    expect(await count()).toBe(0)
  })

  test('T6 purchases without a result are counted: under way, in doubt or charged; not what is given back', async () => {
    const count = (since = now) => purchases.fruitlessFor('front', since)
    const first = await signedFor()
    const second = await signedFor()
    await signedFor({ boughtFor: { ...boughtFor, agentId: 'other' } })
    expect([await count(), await count(now + 1)]).toEqual([2, 0])
    const paid = { paymentId: first.paymentId, amount: 10_000n, txHash: undefined }
    await purchases.finish({ ...first.order, status: 'completed', output: 'result' }, paid)
    expect(await count()).toBe(1)
    const error = { code: 'EXECUTION_FAILED', message: 'failed', retryable: false }
    await purchases.finish({ ...second.order, status: 'failed', error })
    expect(await count()).toBe(0)
    await purchases.resolve(second, 'spent', undefined, now)
    expect(await count()).toBe(1)
  })

  test('an unsigned order of a run ends with the process; one that is signed for stays', async () => {
    const { order: kept } = await signedFor()
    const [waiting, living] = [order({ status: 'pending' }), order({ status: 'pending' })]
    await createPurchases(asEnded(database)).finish(waiting)
    await purchases.finish(living)
    await purchases.takeOver(now + 1)
    expect((await purchases.order(living.id))?.status).toBe('pending')
    expect((await purchases.order(kept.id))?.status).toBe('executing')
    expect(await purchases.order(waiting.id)).toMatchObject({ status: 'failed', error: { code: 'ORDER_CANCELLED' } })
  })

  test('D33 runs of the same task each ask the operator: the approval of one is not the other’s', async () => {
    const store = createApprovalStore(database)
    const ask = async (asked: Order) => {
      const whose = { id: randomUUID(), orderId: asked.id, agentId, agentName: 'inner', sellerId: 'seller' }
      const what = { amount: 10_000n, task: 'task', tokenId: undefined, workflowId: undefined, reason: 'dear' }
      const approval: StoredApproval = { ...whose, ...what, status: 'pending', createdAt: now, expiresAt: now + 1_000 }
      return ((await store.ask(asked, approval, { all: 10, perToken: 10 })) as StoredApproval).orderId
    }
    const [one, two] = [order({ status: 'pending' }), order({ status: 'pending' })]
    expect([await ask(one), await ask(two)]).toEqual([one.id, two.id])
    const { boughtFor: _, ...byHand } = order({ status: 'pending' })
    expect(await ask(byHand)).toBe(byHand.id)
  })
})
