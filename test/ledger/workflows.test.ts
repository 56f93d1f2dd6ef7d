import { beforeEach, expect, test } from 'vitest'
import { KeyTaken } from '../../src/store/idempotency.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { type Order, putOrder } from '../../src/store/order-row.ts'
import { run, together } from '../../src/store/query.ts'
import type { StoredStep, StoredWorkflow } from '../../src/store/workflow-row.ts'
import { createWorkflowStore, type WorkflowStore } from '../../src/store/workflows.ts'
import { onBothEngines } from '../support/ledgers.ts'

const now = Date.UTC(2026, 0, 1)
const many = { all: 1_000, perToken: 1_000 }
let database: LedgerDatabase
let workflows: WorkflowStore

let count = 0
function step(id: string, changes: Partial<StoredStep> = {}): StoredStep {
  const unbegun = {
    orderId: undefined,
    error: undefined,
    refusedAt: undefined,
    startedAt: undefined,
    endedAt: undefined,
  }
  return {
    ...{ id, agents: ['x', 'y'], input: '{{input}}', dependsOn: [], maxPrice: 2n ** 60n, retries: 1 },
    ...{ price: 7n, status: 'pending', agent: 0, tries: 0, ...unbegun, ...changes },
  }
}
function workflow(changes: Partial<StoredWorkflow> = {}): StoredWorkflow {
  return {
    ...{ id: `workflow-${++count}`, name: 'Summary', input: 'in', budget: 2n ** 53n - 1n, status: 'pending' },
    ...{ createdAt: now, updatedAt: now, tokenId: undefined, revision: 0, steps: [step('b'), step('a')], ...changes },
  }
}
async function created(changes: Partial<StoredWorkflow> = {}): Promise<StoredWorkflow> {
  const made = workflow(changes)
  expect(await workflows.create(made, many)).toBe('placed')
  return made
}
function order({ id: workflowId }: StoredWorkflow, stepId: string, changes: Partial<Order> = {}): Order {
  const blank = { sellerId: undefined, output: undefined, error: undefined, correlationId: undefined }
  const id = `order-${++count}`
  const at = { createdAt: now, updatedAt: now }
  return { id, agentId: 'x', price: 7n, status: 'pending', task: 't', ...blank, ...at, workflowId, stepId, ...changes }
}
/** Stores the payment of an order. */
function signed(orderId: string, state: string, amount: bigint, more: { confirmed?: true; settlesFirst?: true } = {}) {
  const bytes = Buffer.alloc(32)
  return run(
    `INSERT INTO authorizations (order_no, payment_id, agent_id, seller_id, state, network, asset, pay_to, amount,
       max_timeout_s, payer, authorization_nonce, valid_after_s, valid_before_s, signature, day, created_at, updated_at,
       confirmed_at, settles_first)
     VALUES ((SELECT no FROM orders WHERE id = ?), ?, 'x', 's', ?, 'n', 'a', 'p', ?, 60, 'p', ?, 0, 1, ?, '2026-01-01', 0,
       0, ?, ?)`,
    ...[orderId, bytes, state, amount, bytes, bytes],
    ...[more.confirmed === true ? 1 : null, more.settlesFirst === true ? 1 : null],
  )
}

onBothEngines((open, openTwo) => {
  beforeEach(async () => {
    database = await open()
    workflows = createWorkflowStore(database)
  })

  test('a workflow reads back as it was created, and unknown ones are not there', async () => {
    const bare = { name: undefined, budget: undefined, tokenId: 'token' }
    for (const made of [await created(), await created(bare)]) {
      expect(await workflows.get(made.id)).toEqual(made)
      const books = { paid: 0n, held: 0n, notCharged: 0n }
      expect(await workflows.see(made.id)).toEqual({ workflow: made, orders: [], books })
    }
    expect([await workflows.get('none'), await workflows.see('none')]).toEqual([undefined, undefined])
  })

  test('T19: open workflows never exceed the limits, of all and of a token', async () => {
    const limits = { all: 3, perToken: 1 }
    expect(await workflows.create(workflow({ tokenId: 'token' }), limits)).toBe('placed')
    expect(await workflows.create(workflow({ tokenId: 'token' }), limits)).toBe('share')
    expect(await workflows.create(workflow({ tokenId: 'other' }), limits)).toBe('placed')
    expect(await workflows.create(workflow({ status: 'completed' }), limits)).toBe('placed')
    expect(await workflows.create(workflow(), limits)).toBe('placed')
    expect(await workflows.create(workflow(), limits)).toBe('full')
  })

  test('D38: of two requests with one key at the same instant, one creates a workflow', async () => {
    const [first, second] = (await openTwo()).map(createWorkflowStore)
    const request = { tokenId: undefined, key: 'k', hash: Buffer.alloc(32), at: 1_000_000_000 }
    const [one, other] = [workflow(), workflow()]
    const outcomes = await Promise.allSettled([first!.create(one, many, request), second!.create(other, many, request)])
    const refused = outcomes.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
    expect(refused).toEqual([expect.any(KeyTaken)])
    const { items } = await first!.list({ limit: 10 })
    expect(items.map((item) => item.workflow.id)).toEqual([refused[0].target.id])
  })

  test('a key is free again if its workflow was refused', async () => {
    const request = { tokenId: undefined, key: 'k', hash: Buffer.alloc(32), at: 1_000_000_000 }
    expect(await workflows.create(workflow(), { all: 0, perToken: 0 }, request)).toBe('full')
    expect(await workflows.create(workflow(), many, request)).toBe('placed')
  })

  test('a change is stored with the status, and the revision rises', async () => {
    const made = await created()
    const error = { code: 'X', message: 'é', retryable: true }
    const refused = { id: 'a', status: 'running', agent: 1, tries: 2, error, refusedAt: 5, startedAt: 4 } as const
    expect(await workflows.save(made, [refused], 'running', now + 1)).toBe(true)
    const after = (await workflows.get(made.id))!
    expect(after).toEqual({
      ...{ ...made, status: 'running', updatedAt: now + 1, revision: 1 },
      steps: [step('b'), { ...step('a'), ...refused }],
    })
    expect(await workflows.save(after, [{ id: 'a', status: 'completed', error: undefined }], 'completed', now)).toBe(
      true,
    )
    expect((await workflows.get(made.id))?.steps[1]).toMatchObject({ status: 'completed', error: undefined, tries: 2 })
    await expect(workflows.save((await workflows.get(made.id))!, [{ id: 'none' }], 'running', now)).rejects.toThrow(
      'none',
    )
    expect((await workflows.get(made.id))?.revision).toBe(2)
  })

  test('of two processes that go on from the same revision, one does, and the order of the other is not there', async () => {
    const databases = await openTwo()
    const [first, second] = databases.map(createWorkflowStore)
    const made = workflow()
    await first!.create(made, many)
    const orders = [order(made, 'b'), order(made, 'a')]
    const begun = await Promise.all([
      first!.begin(made, { id: 'b', startedAt: now }, orders[0]!, now),
      second!.begin(made, { id: 'a', startedAt: now }, orders[1]!, now),
    ])
    expect([...begun].sort()).toEqual([false, true])
    const winner = orders[begun[0] ? 0 : 1]!
    expect(await first!.orders(made.id)).toEqual([winner.id])
    const { status, steps } = (await second!.get(made.id))!
    expect([status, steps.flatMap(({ orderId }) => orderId ?? [])]).toEqual(['running', [winner.id]])
  })

  test('D20: the orders of a step are read with their payments, oldest first', async () => {
    const made = await created()
    const error = { code: 'X', message: 'm', retryable: false }
    const [old, free, latest, other] = [
      order(made, 'a', { status: 'failed', error }),
      order(made, 'a', { status: 'completed', updatedAt: now + 1 }),
      order(made, 'a'),
      order(made, 'b'),
    ]
    for (const each of [old, free, latest, other]) await database.commit(putOrder(each, database.process))
    await database.commit(
      together(signed(old.id, 'released', 7n), signed(latest.id, 'reserved', 7n, { settlesFirst: true })),
    )
    const bare = { error: undefined, signed: undefined, settlesFirst: false }
    expect(await workflows.attempts(made.id, 'a')).toEqual([
      { orderId: old.id, status: 'failed', updatedAt: now, ...bare, error, signed: 'released' },
      { orderId: free.id, status: 'completed', updatedAt: now + 1, ...bare },
      { orderId: latest.id, status: 'pending', updatedAt: now, ...bare, signed: 'reserved', settlesFirst: true },
    ])
    expect((await workflows.see(made.id))?.orders.at(-1)).toEqual({ id: other.id, stepId: 'b' })
  })

  test('D42: what is paid, held and not charged, and what the rest may still spend', async () => {
    const made = await created()
    expect(await workflows.spending(made.id)).toEqual({ sure: 0n, perhaps: 0n })
    const huge = 2n ** 53n - 1n
    const orders = [
      order(made, 'a', { status: 'completed' }),
      order(made, 'a', { status: 'completed' }),
      order(made, 'b', { status: 'failed' }),
      order(made, 'b', { status: 'failed' }),
      order(made, 'b', { price: 30n }),
    ]
    for (const each of orders) await database.commit(putOrder(each, database.process))
    await database.commit(
      together(
        signed(orders[0]!.id, 'spent', huge, { confirmed: true }),
        signed(orders[1]!.id, 'spent', huge),
        signed(orders[2]!.id, 'released', 300n),
        signed(orders[3]!.id, 'reserved', 4_000n),
      ),
    )
    const expected = { paid: huge, held: huge + 4_000n, notCharged: 300n }
    expect((await workflows.see(made.id))?.books).toEqual(expected)
  })

  test('amounts of a workflow add up beyond 2^53', async () => {
    const made = await created()
    const big = 2n ** 53n - 5n
    const [paid, failed, open] = [
      order(made, 'a', { status: 'completed' }),
      order(made, 'b', { status: 'failed' }),
      order(made, 'b', { price: 30n }),
    ]
    for (const each of [paid, failed, open]) await database.commit(putOrder(each, database.process))
    await database.commit(together(signed(paid.id, 'spent', big + 1n), signed(failed.id, 'reserved', big + 3n)))
    expect(await workflows.spending(made.id)).toEqual({ sure: big + 31n, perhaps: big + 3n })
  })

  test('workflows are listed newest first, page by page, without their input', async () => {
    const made = [await created(), await created({ status: 'running', tokenId: 'token' }), await created()]
    const page = await workflows.list({ limit: 2 })
    expect(page.items.map((item) => item.workflow)).toEqual([
      { ...made[2], input: '' },
      { ...made[1], input: '' },
    ])
    const rest = await workflows.list({ limit: 2, cursor: page.next })
    expect([rest.items.map((item) => item.workflow.id), rest.next]).toEqual([[made[0]!.id], undefined])
    const idsOf = async (query: object) =>
      (await workflows.list({ limit: 10, ...query })).items.map((item) => item.workflow.id)
    expect(await idsOf({ status: 'running', ownerId: 'token' })).toEqual([made[1]!.id])
    expect(await idsOf({ status: 'failed' })).toEqual([])
  })

  test('a page of workflows with long templates ends early', async () => {
    const steps = [step('a', { input: 'x'.repeat(6 * 1024 * 1024) })]
    for (let no = 0; no < 3; no++) await created({ steps })
    const { items, next } = await workflows.list({ limit: 10 })
    expect(items.length).toBeLessThan(3)
    expect((await workflows.list({ limit: 10, cursor: next })).items).not.toEqual([])
  })

  test('workflows are found by name or id, whatever the case, and by time', async () => {
    const [named, bare] = [await created({ name: '50%_Off' }), await created({ name: undefined, createdAt: now + 9 })]
    const idsOf = async (query: object) =>
      (await workflows.list({ limit: 10, ...query })).items.map((item) => item.workflow.id)
    expect(await idsOf({ text: '0%_o' })).toEqual([named.id])
    expect(await idsOf({ text: '5%o' })).toEqual([])
    expect(await idsOf({ text: bare.id.toUpperCase() })).toEqual([bare.id])
    expect(await idsOf({ since: now + 1 })).toEqual([bare.id])
    expect(await idsOf({ until: now + 1 })).toEqual([named.id])
  })

  test('what is not over is known after a restart', async () => {
    const open = await created()
    const canceled = await created({ status: 'canceled', steps: [step('a')] })
    const running = (await workflows.get(canceled.id))!
    await workflows.begin(running, { id: 'a' }, order(running, 'a'), now)
    await workflows.save((await workflows.get(canceled.id))!, [], 'canceled', now)
    await created({ status: 'completed' })
    expect(await workflows.unfinished()).toEqual([open.id, canceled.id])
  })
})
