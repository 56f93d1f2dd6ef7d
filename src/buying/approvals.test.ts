import { afterEach, beforeEach, expect, test } from 'vitest'
import { listingFixture } from '../../test/support/fake-api.ts'
import { createFakeMarket } from '../../test/support/fake-market.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { agentId, payTo, usdc } from '../../test/support/payments.ts'
import { testBudget } from '../../test/support/test-budget.ts'
import { TestBuyer } from '../../test/support/test-buyer.ts'
import { until } from '../../test/support/until.ts'
import { TestSeller } from '../../test/support/x402-seller.ts'
import { type Database, openDatabase } from '../store/database.ts'
import type { Buyer } from './buyer.ts'

const clock = new HandClock()
let seller: TestSeller
let database: Database
let buyer: Buyer
let listing = listingFixture()

/** The buyer's process, on what its database holds. */
async function startBuyer(): Promise<Buyer> {
  const started = createFakeMarket(() => [listing], {
    clock,
    database,
    rules: { autoApproveBelowAtomic: 10_000n },
    openStream: (_peer, protocol) => seller.open('buyer', protocol),
  })
  for (const service of started.services) await service.start()
  return started
}
const stop = async ({ services, streams }: Buyer) => {
  for (const service of services.toReversed()) await service.stop()
  await streams.close()
}
beforeEach(async () => {
  listing = listingFixture({ id: agentId, seller_id: 'seller', asset: usdc.address, pay_to: payTo })
  database = openDatabase({ path: ':memory:' })
  seller = await new TestSeller({ clock }).start()
  buyer = await startBuyer()
})
afterEach(async () => {
  await stop(buyer)
  await seller.stop()
  await database.close()
})

const buy = (input = 'task') => buyer.execute({ agentId, input, signal: AbortSignal.timeout(10_000) })
/** Has a purchase wait. */
async function held(input?: string): Promise<{ approvalId: string; orderId: string }> {
  const error = await buy(input).then(
    () => expect.fail('was bought'),
    (thrown: unknown) => thrown as { code: string; approvalId: string; orderId: string },
  )
  expect(error).toMatchObject({ code: 'APPROVAL_REQUIRED' })
  return error
}
const ended = (id: string) => buyer.orders.settled(id, { limitMs: 5_000 })

test('D33 a call at the threshold waits, and nobody is asked or paid before the operator approves it', async () => {
  const { approvalId, orderId } = await held()
  expect(await buyer.approvals.list('pending')).toMatchObject([
    { id: approvalId, order_id: orderId, agent_id: agentId, seller_id: 'seller', amount: '0.01', status: 'pending' },
  ])
  expect(await buyer.orders.get(orderId)).toMatchObject({ status: 'pending', approval_id: approvalId })
  expect([seller.runs.length, (await buyer.budget.view()).spent_today]).toEqual([0, '0'])
  expect(await buyer.approvals.decide(approvalId, 'approved')).toMatchObject({ status: 'approved' })
  expect(await ended(orderId)).toMatchObject({ status: 'completed', output: 're: task', payment: { amount: '0.01' } })
  expect([seller.runs.length, (await buyer.budget.view()).spent_today]).toEqual([1, '0.01'])
})

test('who asks again for the same is given the same approval; for something else, another', async () => {
  const [one, two, other] = [await held('a'), await held('a'), await held('b')]
  expect([two.approvalId, two.orderId]).toEqual([one.approvalId, one.orderId])
  expect(other.approvalId).not.toBe(one.approvalId)
})

test('an approval is decided once; what is denied fails, unpaid', async () => {
  const { approvalId, orderId } = await held()
  await buyer.approvals.decide(approvalId, 'denied')
  expect(await ended(orderId)).toMatchObject({ status: 'failed', error: { code: 'APPROVAL_DENIED' } })
  await expect(buyer.approvals.decide(approvalId, 'approved')).rejects.toMatchObject({ code: 'APPROVAL_FINAL' })
  await expect(buyer.approvals.decide('nobody', 'approved')).rejects.toMatchObject({ code: 'UNKNOWN_APPROVAL' })
  expect(seller.runs).toEqual([])
})

test('what nobody decides in time expires, and cannot be approved any more', async () => {
  const { approvalId, orderId } = await held()
  clock.advance(60_000)
  expect((await buyer.approvals.get(approvalId)).status).toBe('expired')
  await expect(buyer.approvals.decide(approvalId, 'approved')).rejects.toMatchObject({ code: 'APPROVAL_FINAL' })
  expect(await ended(orderId)).toMatchObject({ status: 'failed', error: { code: 'APPROVAL_EXPIRED' } })
  expect(seller.runs).toEqual([])
})

test('an order that was canceled meanwhile is not revived by its approval', async () => {
  const { approvalId, orderId } = await held()
  await buyer.orders.cancel(orderId)
  await expect(buyer.approvals.decide(approvalId, 'approved')).rejects.toMatchObject({ code: 'APPROVAL_FINAL' })
  expect((await buyer.orders.get(orderId)).status).toBe('cancelled')
})

test('T17 approvals outlive the process: one that is approved after a restart executes', async () => {
  const { approvalId, orderId } = await held()
  await stop(buyer)
  buyer = await startBuyer()
  expect((await buyer.orders.get(orderId)).status).toBe('pending')
  await buyer.approvals.decide(approvalId, 'approved')
  expect(await ended(orderId)).toMatchObject({ status: 'completed' })
})

test('a step of a workflow waits likewise, and goes on', async () => {
  const step = {
    id: 'a',
    agentId,
    retries: 0,
    fallback: [],
    input: undefined,
    dependsOn: undefined,
    maxPrice: undefined,
  }
  const workflow = await buyer.workflows.create({ name: undefined, input: 'go', budget: undefined, steps: [step] })
  const [waiting] = await until(async () =>
    (await buyer.approvals.list('pending')).length > 0 ? await buyer.approvals.list() : undefined,
  )
  expect((await buyer.workflows.get(workflow.id)).status).toBe('running')
  await buyer.approvals.decide(waiting!.id, 'approved')
  expect(await buyer.workflows.settled(workflow.id, { limitMs: 5_000 })).toMatchObject({ status: 'completed' })
})

test('an approval is for its amount: a seller that has become dearer is asked for again', async () => {
  const order = await buyer.orders.create({ agentId, price: 1_000_000n, task: 'task' })
  const [first] = await until(async () =>
    (await buyer.approvals.list()).length > 0 ? await buyer.approvals.list() : undefined,
  )
  listing = { ...listing, price: 20_000n }
  await buyer.approvals.decide(first!.id, 'approved')
  const [second] = await until(async () =>
    (await buyer.approvals.list('pending')).length > 0 ? await buyer.approvals.list() : undefined,
  )
  expect(second).toMatchObject({ order_id: order.id, amount: '0.02', status: 'pending' })
  expect(seller.runs).toEqual([])
})

test('what would be refused anyway is refused at once: nobody is asked to approve it', async () => {
  await buyer.budget.change({ per_day: 9_999n })
  await expect(buy()).rejects.toMatchObject({ code: 'OVER_BUDGET' })
  await buyer.budget.change({ per_day: null, deny: ['seller'] })
  await expect(buy()).rejects.toMatchObject({ code: 'SELLER_NOT_ALLOWED' })
  expect(await buyer.approvals.list()).toEqual([])
})

test('below the threshold nothing waits, and a changed rule holds at once', async () => {
  await buyer.budget.change({ auto_approve_below: 10_001n })
  expect((await buy()).output).toBe('re: task')
  await buyer.budget.change({ auto_approve_below: null })
  expect((await buy()).output).toBe('re: task')
  await buyer.budget.change({ auto_approve_below: 0n })
  await held()
})

test('D33 the one place that signs asks for the approval itself, whoever forgot to', async () => {
  const forgetful = new TestBuyer({ clock, open: (_peer, protocol) => seller.open('buyer', protocol) })
  const { purchases } = forgetful
  forgetful.deps.budget = testBudget({ autoApproveBelow: 0n }, { clock, purchases })
  await expect(forgetful.execute()).rejects.toMatchObject({ code: 'APPROVAL_REQUIRED' })
  expect(await forgetful.ledger()).toMatchObject([{ order: { status: 'failed' }, reservation: undefined }])
  await forgetful.streams.close()
})
