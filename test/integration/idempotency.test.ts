/** D38 between whole nodes on the real chain: a request that is sent again buys nothing again. */
import { randomInt, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ask, call } from '../support/api-calls.ts'
import { begun, hasEnded, slowProgram } from '../support/slow-agent.ts'
import type { TestNode } from '../support/test-node.ts'
import { startTradingPair, type TradingPair } from '../support/trading-pair.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
type Order = { id: string; status: string; output?: string; payment?: { payment_id: string } }
type Result = { order_id: string; output: string; payment: { payment_id: string } }

let pair: TradingPair
let home: string
let buyer: TestNode
let agentId: string
let slowId: string

beforeAll(async () => {
  pair = await startTradingPair((dir) => [
    { name: 'echo', description: 'd', price: PRICE, model: 'builtin/echo' },
    { name: 'slow', description: 'd', price: PRICE, command: slowProgram(dir, 3_000) },
  ])
  ;({ home, buyer } = pair)
  ;[agentId, slowId] = [pair.listed.echo!.id, pair.listed.slow!.id]
})
afterAll(() => pair?.stop())

const keyed = (key: string) => ({ 'idempotency-key': key })
const payments = async () => (await ask<unknown[]>(buyer.url, '/payments?limit=100')).length
const ordersOf = (key: string) => ask<Order[]>(buyer.url, `/orders?idempotency_key=${encodeURIComponent(key)}`)

describe('D38 T25 the same request with the same key', () => {
  test.each([
    ['POST /agents/{id}/execute', () => `/agents/${agentId}/execute`, () => ({ task: 'hello' })],
    ['POST /execute', () => '/execute', () => ({ agent_id: agentId, input: 'hello' })],
    ['POST /api/execute', () => '/api/execute', () => ({ agent_id: agentId, input: 'hello' })],
  ])('buys once: %s', async (_form, path, body) => {
    const key = randomUUID()
    const before = await payments()
    const send = () => ask<Result>(buyer.url, path(), { body: body(), headers: keyed(key) })
    const [first, second] = await Promise.all([send(), send()])
    const third = await send()
    expect([second.order_id, third.order_id]).toEqual([first.order_id, first.order_id])
    expect(third).toMatchObject({ output: first.output, payment: { payment_id: first.payment.payment_id } })
    expect((await payments()) - before).toBe(1)
    expect((await ordersOf(key)).map(({ id }) => id)).toEqual([first.order_id])
  })

  test('buys once whichever of the two forms it is sent in', async () => {
    const headers = keyed(randomUUID())
    const first = await ask<Result>(buyer.url, `/agents/${agentId}/execute`, { body: { task: 'a' }, headers })
    const again = await ask<Result>(buyer.url, '/execute', { body: { agent_id: agentId, input: 'a' }, headers })
    expect(again.order_id).toBe(first.order_id)
  })

  test('places one order, gives it its task once, and begins one workflow', async () => {
    const headers = keyed(randomUUID())
    const order = { agent_id: agentId, price: '0.01' }
    const place = () => call(buyer.url, '/orders', { body: order, headers })
    const [first, second] = await Promise.all([place(), place()])
    expect([first.status, second.status]).toEqual([201, 201])
    const { id } = first.body as Order
    expect((second.body as Order).id).toBe(id)

    const task = { body: { task: 'later' }, headers: keyed(randomUUID()) }
    const give = () => call(buyer.url, `/orders/${id}/execute`, task)
    expect([(await give()).status, (await give()).status]).toEqual([202, 202])

    const workflow = { body: { agent_ids: [agentId], input: 'in' }, headers: keyed(randomUUID()) }
    const begin = () => ask<{ id: string }>(buyer.url, '/workflows', workflow)
    const [one, other] = await Promise.all([begin(), begin()])
    expect(other.id).toBe(one.id)
    expect((await begin()).id).toBe(one.id)
    await ask(buyer.url, `/workflows/${one.id}?wait=20`)
    await ask(buyer.url, `/orders/${id}?wait=20`)
  })

  test('is refused with another body or for another operation', async () => {
    const headers = keyed(randomUUID())
    await ask(buyer.url, '/execute', { body: { agent_id: agentId, input: 'a' }, headers })
    const others: [string, object][] = [
      ['/execute', { agent_id: agentId, input: 'b' }],
      ['/execute', { agent_id: agentId, input: 'a', max_price: '0.02' }],
      ['/orders', { agent_id: agentId, price: '0.01', task: 'a' }],
      ['/workflows', { agent_ids: [agentId], input: 'a' }],
    ]
    for (const [path, body] of others) {
      const { status, body: problem } = await call(buyer.url, path, { body, headers })
      expect([status, (problem as { code: string }).code]).toEqual([409, 'IDEMPOTENCY_CONFLICT'])
    }
    const malformed = await call(buyer.url, '/execute', {
      body: { agent_id: agentId, input: 'a' },
      headers: keyed('two words'),
    })
    expect(malformed.status).toBe(400)
  })

  test('of another token is another request', async () => {
    const key = randomUUID()
    const orders = new Set<string>()
    for (const name of ['one', 'two']) {
      const { token } = await ask<{ token: string }>(buyer.url, '/tokens', {
        body: { name, scope: 'spend', budget: '1' },
      })
      const headers = { ...keyed(key), authorization: `Bearer ${token}` }
      const body = { agent_id: agentId, input: 'a' }
      orders.add((await ask<Result>(buyer.url, '/execute', { body, headers })).order_id)
      const own = await ask<Order[]>(buyer.url, `/orders?idempotency_key=${key}`, { headers })
      expect(own).toHaveLength(1)
    }
    expect(orders.size).toBe(2)
  })
})

describe('D38 a client that leaves', () => {
  test('after the signature finds its order by its key, and its result when it asks again', async () => {
    const key = randomUUID()
    const input = `left alone ${randomInt(1e9)}`
    const leaving = new AbortController()
    const body = { agent_id: slowId, input }
    const gone = call(buyer.url, '/execute', { body, headers: keyed(key), signal: leaving.signal }).catch(() => 'left')
    await begun(home, input)
    leaving.abort()
    expect(await gone).toBe('left')
    const [order] = await ordersOf(key)
    expect(order).toMatchObject({ status: 'executing', payment: { amount: '0.01' } })
    const again = await ask<Result>(buyer.url, '/execute', { body, headers: keyed(key) })
    expect(again).toMatchObject({ order_id: order!.id, output: `slowly: ${input}` })
    expect(hasEnded(home, input)).toBe(true)
  })

  test('after the signature loses nothing where it sent no key', async () => {
    const leaving = new AbortController()
    const body = { agent_id: slowId, input: 'no key' }
    void call(buyer.url, '/execute', { body, signal: leaving.signal }).catch(() => {})
    await begun(home, 'no key')
    leaving.abort()
    const newest = async () => (await ask<Order[]>(buyer.url, '/orders?limit=1'))[0]
    const done = await until(
      async () => {
        const order = await newest()
        return order?.status === 'completed' ? order : undefined
      },
      { timeoutMs: 60_000 },
    )
    expect(done).toMatchObject({ output: 'slowly: no key' })
  })
})
