/** Own agents whose work is done by a paid agent elsewhere: the agent behind is bought, once, with money on a real chain. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { agentId } from '../../src/agents/agent-id.ts'
import { ask, discovered } from '../support/api-calls.ts'
import {
  type Front,
  type FrontMarket,
  FUNDS,
  INNER,
  OUTER,
  ordersOf,
  refusal,
  run,
  sell,
  signedBy,
  startFrontMarket,
  urlOf,
} from '../support/front-market.ts'
import { startTestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

let market: FrontMarket
let sleeperId: string
beforeAll(async () => {
  market = await startFrontMarket()
  const slow = 'process.stdin.resume(); setTimeout(() => console.log("late"), 1_500)'
  sleeperId = await sell(market.inner, { name: 'sleeper', price: INNER, command: [process.execPath, '-e', slow] })
})
afterEach(() => market.stopNodes())
afterAll(() => market?.stop())

test('ADR-22 an agent that is bought buys the paid agent behind it: each is paid once, and a retry pays nobody again', async () => {
  const selling = await market.front()
  const buyer = await market.funded({}, [selling])
  await discovered(buyer.url, selling.id)
  const sellersBefore = await market.balance(market.devnet.wallets.seller.privateKey)
  const buy = () => run({ node: buyer.node, id: selling.id }, { idempotencyKey: 'once' })
  const bought = await buy()
  expect([bought.output, bought.payment?.amount]).toEqual(['hello', '0.05'])
  const [order, ...more] = await signedBy(selling)
  expect(more).toEqual([])
  expect(order).toMatchObject({
    agent_id: market.innerId,
    status: 'completed',
    payment: { amount: '0.02' },
    bought_for: { agent_id: selling.id, agent_name: 'front' },
  })
  expect((await buy()).order_id).toBe(bought.order_id)
  await until(async () => (await market.balance(selling.key)) === FUNDS + OUTER - INNER)
  expect(await market.balance(buyer.key)).toBe(FUNDS - OUTER)
  expect((await market.balance(market.devnet.wallets.seller.privateKey)) - sellersBefore).toBe(INNER)
})

describe('ADR-22 nothing is signed', () => {
  const nothingMoved = async (selling: Front) => {
    expect(await signedBy(selling)).toEqual([])
    expect(await market.balance(selling.key)).toBe(FUNDS)
  }

  test('for a paid agent where its seller has set no max_price, and the error says so', async () => {
    const selling = await market.front({ max_price: undefined })
    expect(await refusal(run(selling))).toMatchObject({
      code: 'AGENT_NOT_RUNNABLE',
      message: expect.stringContaining('max_price'),
    })
    await nothingMoved(selling)
  })

  test('for one that costs more than max_price, also when its price was raised after the card was read', async () => {
    const selling = await market.front()
    const raised = await sell(market.inner, { name: 'raised', price: INNER, model: 'builtin/echo' })
    await discovered(selling.url, raised)
    const id = await sell(selling, { name: 'second', price: OUTER, a2a: urlOf(market.inner, raised), max_price: INNER })
    expect((await run({ ...selling, id })).output).toBe('hello')
    await sell(market.inner, { name: 'raised', price: INNER + 1n, model: 'builtin/echo' })
    const listed = () => ask<{ price_atomic: string }>(selling.url, `/agents/${raised}`)
    await until(async () => (await listed()).price_atomic === `${INNER + 1n}`)
    expect(await refusal(run({ ...selling, id }))).toMatchObject({
      code: 'AGENT_NOT_RUNNABLE',
      message: expect.stringContaining('max_price'),
    })
    expect(await signedBy(selling)).toHaveLength(1)
  })

  test('beyond the budget of the node', async () => {
    const selling = await market.front({}, { buyer: { dailyBudgetAtomic: INNER - 1n } })
    expect((await refusal(run(selling))).message).toMatch(/cannot pay the agent behind/)
    await nothingMoved(selling)
  })

  test('D37 for an agent of another network', async () => {
    const elsewhere = await startTestNode({ network: 'eip155:8453', bootstrap: [market.inner.node.addresses()[0]!] })
    market.nodes.push(elsewhere)
    const foreign = await sell(elsewhere, { name: 'foreign', price: INNER, model: 'builtin/echo' })
    const selling = await market.front()
    await discovered(selling.url, foreign)
    const id = await sell(selling, { name: 'f', price: OUTER, a2a: urlOf(elsewhere, foreign), max_price: INNER })
    expect((await refusal(run({ ...selling, id }))).message).toMatch(/another network/)
    await nothingMoved(selling)
  })

  test('by an agent that leads to its own node, or back to itself over another one', async () => {
    const selling = await market.front()
    const other = await market.funded({}, [selling])
    const ids = { there: agentId(other.node.peerId, 'there'), here: agentId(selling.node.peerId, 'here') }
    const own = await sell(selling, { name: 'own', price: OUTER, a2a: urlOf(selling, selling.id), max_price: OUTER })
    expect((await refusal(run({ ...selling, id: own }))).message).toMatch(/buy from itself/)
    await sell(selling, { name: 'here', price: INNER, a2a: urlOf(other, ids.there), max_price: OUTER })
    await sell(other, { name: 'there', price: INNER, a2a: urlOf(selling, ids.here), max_price: OUTER })
    await discovered(selling.url, ids.there)
    await discovered(other.url, ids.here)
    await refusal(run({ ...selling, id: ids.here }))
    const charged = (await signedBy(selling)).filter(({ payment }) => payment?.book === 'paid')
    expect(charged).toEqual([])
    expect([await market.balance(selling.key), await market.balance(other.key)]).toEqual([FUNDS, FUNDS])
  })

  test('after its caller has gone: a purchase that waits for an approval is withdrawn', async () => {
    const selling = await market.front({}, { buyer: { autoApproveBelowAtomic: INNER } })
    const leaves = new AbortController()
    const ended = refusal(run(selling, { signal: leaves.signal }))
    const approvals = () => ask<{ id: string; status: string }[]>(selling.url, '/approvals')
    await until(async () => (await approvals())[0]?.status === 'pending')
    leaves.abort(new Error('gone'))
    await ended
    await until(async () => (await approvals())[0]?.status !== 'pending')
    expect((await ordersOf(selling)).filter(({ status }) => status === 'pending')).toEqual([])
    await nothingMoved(selling)
  })
})

test('a purchase that needs the operator’s word waits for it, and the run goes on with its result', async () => {
  const selling = await market.front({}, { buyer: { autoApproveBelowAtomic: INNER } })
  const running = run(selling)
  const waiting = () => ask<{ id: string }[]>(selling.url, '/approvals?status=pending')
  const [approval] = await until(async () => ((await waiting()).length > 0 ? waiting() : undefined), {
    timeoutMs: 60_000,
  })
  await ask(selling.url, `/approvals/${approval!.id}/approve`, { method: 'POST' })
  expect((await running).output).toBe('hello')
})

test('T6 a client that leaves after the agent behind is signed for cannot take the task back: it ends and is kept', async () => {
  const selling = await market.front({ a2a: urlOf(market.inner, sleeperId) })
  await discovered(selling.url, sleeperId)
  const leaves = new AbortController()
  const ended = refusal(run(selling, { signal: leaves.signal }))
  await until(async () => (await signedBy(selling)).length === 1)
  leaves.abort(new Error('gone'))
  expect((await ended).code).toBe('RESULT_PENDING')
  const all = async () => (await ordersOf(selling)).map(({ status }) => status)
  await until(async () => (await all()).every((status) => status === 'completed'))
  expect(await signedBy(selling)).toHaveLength(1)
})

test('T6 a buyer that cancels after the agent behind was signed for is charged: the run ends, and both are paid', async () => {
  const selling = await market.front({ a2a: urlOf(market.inner, sleeperId) })
  await discovered(selling.url, sleeperId)
  const buyer = await market.funded({}, [selling])
  await discovered(buyer.url, selling.id)
  const cancels = new AbortController()
  const ended = run({ node: buyer.node, id: selling.id }, { cancel: cancels.signal }).catch(() => undefined)
  await until(async () => (await signedBy(selling)).length === 1)
  cancels.abort(new Error('canceled'))
  await ended
  await until(async () => (await market.balance(selling.key)) === FUNDS + OUTER - INNER)
  expect(await market.balance(buyer.key)).toBe(FUNDS - OUTER)
})
