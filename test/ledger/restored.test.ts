/** T16 T33: what a restored ledger does not know is not bought a second time. */
import { expect, test } from 'vitest'
import { silentLogger } from '../../src/lib/logger.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createTurns, endTurn, readRestored, readTurn, takeTurn } from '../../src/store/ledger-turn.ts'
import { type Order, putOrder } from '../../src/store/order-row.ts'
import { createOrderStore } from '../../src/store/orders.ts'
import { createPurchases } from '../../src/store/purchases.ts'
import { all, run } from '../../src/store/query.ts'
import type { StoredWorkflow } from '../../src/store/workflow-row.ts'
import { createWorkflowStore } from '../../src/store/workflows.ts'
import { asEnded, onBothEngines } from '../support/ledgers.ts'

const now = Date.parse('2026-01-01T00:00:00Z')

function orderOf(id: string, more: Partial<Order> = {}): Order {
  const blank = {
    sellerId: undefined,
    output: undefined,
    error: undefined,
    correlationId: undefined,
    tokenId: undefined,
  }
  const times = { createdAt: now, updatedAt: now }
  return { id, agentId: 'agent', price: 10n, task: 'count', status: 'pending', ...blank, ...times, ...more }
}

const workflow: StoredWorkflow = {
  ...{ id: 'flow', name: undefined, input: 'x', budget: 100n, status: 'pending', createdAt: now, updatedAt: now },
  ...{ tokenId: undefined, revision: 0 },
  steps: ['one', 'two'].map((id) => ({
    ...{ id, agents: ['agent'], after: [], input: '{{input}}', retries: 0, maxPrice: undefined, rebuy: undefined },
    ...{ price: 10n, status: 'pending', agent: 0, tries: 0, orderId: undefined, error: undefined },
    ...{ refusedAt: undefined, startedAt: undefined, endedAt: undefined },
  })) as unknown as StoredWorkflow['steps'],
}

const states = async (ledger: LedgerDatabase) =>
  Object.fromEntries(
    (await ledger.query(all<{ id: string; status: string }>('SELECT id, status FROM orders'))).map((row) => [
      row.id,
      row.status,
    ]),
  )

onBothEngines((open) => {
  test('openings and closings are counted, and end nothing', async () => {
    const ledger = await open()
    await ledger.commit(putOrder(orderOf('open'), asEnded(ledger).process))
    const { turn, restored } = await takeTurn(ledger, { marked: undefined, now })
    expect([turn, restored]).toEqual([1, undefined])
    expect(await endTurn(ledger)).toBe(2)
    expect(await takeTurn(ledger, { marked: 2, now })).toEqual({ turn: 3 })
    expect(await states(ledger)).toEqual({ open: 'pending' })
    expect(await readRestored(ledger)).toBeUndefined()
  })

  test('a backup that is put back beneath a process is told, and at the next start the ledger is restored', async () => {
    const ledger = await open()
    const { turn } = await takeTurn(ledger, { marked: undefined, now })
    const marks: number[] = []
    const errors: string[] = []
    const logger = { ...silentLogger, error: (_fields: object, text: string) => void errors.push(text) }
    const turns = createTurns(ledger, { last: turn, logger, write: async (last) => void marks.push(last) })
    await turns.next()
    await turns.next()
    expect(marks).toEqual([2, 3])
    await ledger.commit(run("UPDATE kv SET value = '1' WHERE key = 'ledger_turn'"))
    await turns.next()
    await turns.next()
    expect(errors).toEqual([expect.stringContaining('put back while this node ran')])
    const marked = marks.at(-1)
    expect((await takeTurn(ledger, { marked, now })).restored).toEqual({ ended: 0 })
  })

  test('orders that nobody has signed for and workflows end, and those of living processes stay', async () => {
    const ledger = await open()
    const ended = asEnded(ledger)
    const put = (order: Order, { process }: LedgerDatabase) => ledger.commit(putOrder(order, process))
    await put(orderOf('placed'), ended)
    await put(orderOf('begun', { status: 'executing' }), ended)
    await put(orderOf('without a task', { task: undefined }), ended)
    await put(orderOf('done', { status: 'completed' }), ended)
    await put(orderOf('of another process'), ledger)
    await createWorkflowStore(ended).create(workflow, { all: 10, perToken: 10 })
    await takeTurn(ledger, { marked: undefined, now })

    expect((await takeTurn(ledger, { marked: 9, now: now + 5 })).restored).toEqual({ ended: 3 })
    expect(await states(ledger)).toEqual({
      ...{ placed: 'failed', begun: 'failed', 'without a task': 'pending', done: 'completed' },
      'of another process': 'pending',
    })
    const { items } = await createOrderStore(ledger).list({ status: 'failed', limit: 10 })
    expect(items[0]).toMatchObject({ error: { code: 'LEDGER_RESTORED', retryable: false }, updatedAt: now + 5 })
    const flow = await createWorkflowStore(ledger).get('flow')
    expect(flow).toMatchObject({ status: 'canceled', steps: [{ status: 'skipped' }, { status: 'skipped' }] })
    expect(await readRestored(ledger)).toBe(now + 5)

    // A backup names processes that were alive when it was made. Their leases end later.
    await put(orderOf('late', { status: 'executing', createdAt: now, updatedAt: now }), ended)
    await createWorkflowStore(ended).create({ ...workflow, id: 'late flow' }, { all: 10, perToken: 10 })
    await put(orderOf('after', { updatedAt: now + 6 }), ended)
    await createPurchases(ledger).takeOver(now + 7)
    await createWorkflowStore(ledger).takeOver(now + 7)
    expect(await states(ledger)).toMatchObject({ late: 'failed', after: 'pending' })
    expect((await createWorkflowStore(ended).get('late flow'))?.status).toBe('canceled')

    // The marks of the other processes are higher than that of the first one, and lower than the count now.
    await put(orderOf('later'), ended)
    expect((await takeTurn(ledger, { marked: 12, now: now + 9 })).restored).toBeUndefined()
    expect(await states(ledger)).toMatchObject({ later: 'pending' })
    expect(await readTurn(ledger)).toBeGreaterThan(1000)
  })
})
