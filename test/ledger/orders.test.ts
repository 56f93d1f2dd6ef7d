import { beforeEach, describe, expect, test } from 'vitest'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { type Order, type OrderRow, type OrderStatus, toOrder } from '../../src/store/order-row.ts'
import { createOrderStore, type OrderStore } from '../../src/store/orders.ts'
import { one } from '../../src/store/query.ts'
import { onBothEngines } from '../support/ledgers.ts'

const now = Date.UTC(2026, 0, 1)
let database: LedgerDatabase
let orders: OrderStore

let count = 0
function order(changes: Partial<Order> = {}): Order {
  const blank = { sellerId: undefined, output: undefined, error: undefined, correlationId: undefined }
  const id = `order-${++count}`
  return {
    id,
    agentId: 'a',
    price: 7n,
    status: 'pending',
    task: 'task',
    ...blank,
    createdAt: now,
    updatedAt: now,
    ...changes,
  }
}
async function placed(changes: Partial<Order> = {}): Promise<Order> {
  const made = order(changes)
  expect(await orders.place(made, limit(1_000))).toBe('placed')
  return made
}
const limit = (all: number) => ({ all, perToken: all })
const read = async (id: string) => {
  const row = await database.query(one<OrderRow>('SELECT * FROM orders WHERE id = ?', id))
  return row && toOrder(row)
}

onBothEngines((open, openTwo) => {
  beforeEach(async () => {
    database = await open()
    orders = createOrderStore(database)
  })

  test('an order reads back as it was placed', async () => {
    const whole = order({ workflowId: 'w', stepId: 's', channelWish: 'never' })
    await orders.place(whole, limit(1))
    expect(await read(whole.id)).toEqual({ ...whole, startedAt: undefined, cancelRequested: undefined })
  })

  test('T19: open orders at once never exceed the limit', async () => {
    const [first] = [await placed()]
    await placed()
    expect(await orders.place(order(), limit(2))).toBe('full')
    await orders.cancel(first.id, now)
    expect(await orders.place(order(), limit(2))).toBe('placed')
  })

  describe('D18: an order', () => {
    test('begins once', async () => {
      const { id } = await placed()
      const begin = () => orders.begin(id, { sellerId: 'seller', correlationId: 'c', now: now + 1 })
      const [first, second] = await Promise.all([begin(), begin()])
      expect([first?.status, first?.startedAt, first?.correlationId, second]).toEqual([
        'executing',
        now + 1,
        'c',
        undefined,
      ])
    })

    test('gets its task once, and only while it waits', async () => {
      const given = { tokenId: undefined, now }
      const { id } = await placed({ task: undefined })
      expect((await orders.giveTask(id, 'one', given))?.task).toBe('one')
      expect(await orders.giveTask(id, 'two', given)).toBeUndefined()
      const other = await placed({ task: undefined })
      await orders.cancel(other.id, now)
      expect(await orders.giveTask(other.id, 'one', given)).toBeUndefined()
    })

    test('that is canceled and begun in the same instant is either canceled or marked', async () => {
      for (const cancelFirst of [true, false]) {
        const { id } = await placed()
        const begin = () => orders.begin(id, { sellerId: 's', correlationId: 'c', now })
        const cancel = () => orders.cancel(id, now)
        await Promise.all(cancelFirst ? [cancel(), begin()] : [begin(), cancel()])
        expect(await read(id)).toMatchObject({ status: cancelFirst ? 'cancelled' : 'executing', cancelRequested: true })
      }
    })

    test('that does not exist is nothing', async () => {
      expect(await orders.cancel('x', now)).toBeUndefined()
      expect(await orders.begin('x', { sellerId: 's', correlationId: 'c', now })).toBeUndefined()
    })
  })

  test('T17: what is to be taken up is found: pending, with a task, the oldest first', async () => {
    const [first, , third] = [
      await placed(),
      await placed({ task: undefined }),
      await placed({ workflowId: 'w', stepId: 's' }),
    ]
    await orders.begin((await placed()).id, { sellerId: 's', correlationId: 'c', now })
    await orders.cancel((await placed()).id, now)
    expect(await orders.pending()).toEqual([
      { id: first.id, agentId: 'a', workflowId: undefined },
      { id: third.id, agentId: 'a', workflowId: 'w' },
    ])
  })

  describe('the list', () => {
    async function fill() {
      const statuses: OrderStatus[] = ['pending', 'executing', 'completed', 'failed', 'cancelled']
      const made: Order[] = []
      for (let index = 0; index < 25; index++) {
        made.push(await placed({ agentId: index % 2 === 0 ? 'a' : 'b', status: statuses[index % 5]! }))
      }
      return made.reverse()
    }
    const all = async (query: Omit<Parameters<OrderStore['list']>[0], 'limit'>, limit: number) => {
      const ids: string[] = []
      for (let cursor: string | undefined = ''; cursor !== undefined; ) {
        const page = await orders.list({ ...query, limit, ...(cursor !== '' && { cursor }) })
        expect(page.items.length).toBeLessThanOrEqual(limit)
        ids.push(...page.items.map(({ id }) => id))
        cursor = page.next
      }
      return ids
    }

    test('pages through everything once, newest first, whatever the size of a page and the filter', async () => {
      const made = await fill()
      for (const status of [undefined, 'pending', 'executing', 'completed', 'failed', 'cancelled'] as const) {
        for (const agentId of [undefined, 'a', 'b', 'nobody']) {
          const fits = made.filter(
            (one) => (status ?? one.status) === one.status && (agentId ?? one.agentId) === one.agentId,
          )
          for (const limit of [1, 4, 25, 200]) {
            expect(await all({ status, agentId }, limit)).toEqual(fits.map(({ id }) => id))
          }
        }
      }
    })

    test('stays where it was while new ones come', async () => {
      const made = await fill()
      const page = await orders.list({ limit: 10 })
      await placed()
      const rest = await orders.list({ limit: 200, cursor: page.next })
      expect([...page.items, ...rest.items].map(({ id }) => id)).toEqual(made.map(({ id }) => id))
    })

    test('T19: ends a page early when its texts are long, but never empty', async () => {
      const output = 'x'.repeat(3 * 1024 * 1024)
      const made = [await placed({ output }), await placed({ output }), await placed({ output: output + output })]
      expect((await orders.list({ limit: 50 })).items).toHaveLength(1)
      expect(await all({}, 50)).toEqual(made.reverse().map(({ id }) => id))
    })
  })

  test('D18: of two processes one begins an order, gives it its task, or cancels it first', async () => {
    const writers = (await openTwo()).map(createOrderStore)
    const begun = { sellerId: 's', correlationId: 'c', now }
    for (let round = 0; round < 5; round += 1) {
      const [waiting, ready, contested] = [order({ task: undefined }), order(), order()]
      for (const made of [waiting, ready, contested]) await writers[0]!.place(made, limit(1_000))
      const given = await Promise.all(
        writers.map((one, index) => one.giveTask(waiting.id, `${index}`, { tokenId: undefined, now })),
      )
      expect(given.filter((one) => one !== undefined)).toHaveLength(1)
      const runs = await Promise.all(writers.map((one) => one.begin(ready.id, begun)))
      expect(runs.filter((one) => one !== undefined)).toHaveLength(1)
      const [canceled, run] = await Promise.all([
        writers[0]!.cancel(contested.id, now),
        writers[1]!.begin(contested.id, begun),
      ])
      expect([canceled?.status, canceled?.cancelRequested]).toEqual([run ? 'executing' : 'cancelled', true])
    }
  })
})
