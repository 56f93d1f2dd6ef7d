/** The guard of a buyer over payment channels: approvals, budgets of tokens, and limits of a seller hold as for other calls. */
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { ExecutionResult } from '../../src/schema/api.ts'
import type { ChannelRecord } from '../../src/schema/channel-record.ts'
import type { OrderRecord } from '../../src/schema/order.ts'
import { ask, call, discovered } from '../support/api-calls.ts'
import { localAddress } from '../support/loopback.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const PRICE = 1_000n
const WAIT = { timeoutMs: 60_000, everyMs: 50 }
const usdc = (calls: number) => (calls / 1_000).toString()
let devnet: Devnet
let seller: TestNode
let buyer: TestNode
let id: string
/** Calls that the buyer has paid. */
let paid = 0

beforeAll(async () => {
  devnet = await startDevnet()
  const key = generatePrivateKey()
  await devnet.fund(privateKeyToAccount(key).address, 1_000_000n)
  seller = await startTestNode({ devnet, walletKey: generatePrivateKey() })
  const agent = { name: 'repeat', description: 'repeats', price: PRICE }
  const run = async (input: unknown) => {
    if (input === 'fail') throw new Error('the agent failed')
    return String(input)
  }
  id = (await seller.node.registerAgent(agent, { run })).id
  const bootstrap = [localAddress(seller.node.addresses())]
  buyer = await startTestNode({ devnet, walletKey: key, bootstrap, channels: 'always' })
  await discovered(buyer.url, id)
  await until(async () => {
    paid += 1
    return (await ask<ExecutionResult>(buyer.url, `/agents/${id}/execute`, { body: { task: 'open' } })).payment
      ?.channel_id
  }, WAIT)
})
afterAll(async () => {
  await buyer?.stop()
  await seller?.stop()
  await devnet.stop()
})
beforeEach(() => rules({ per_seller: null, auto_approve_below: null }))

const rules = (body: object) => ask(buyer.url, '/budget', { method: 'PUT', body })
const execute = (task: string, token?: string) =>
  call(buyer.url, `/agents/${id}/execute`, {
    body: { task },
    ...(token !== undefined && { headers: { authorization: `Bearer ${token}` } }),
  })

/** Makes calls at once. @returns how many were paid by the channel, and the codes of the others */
async function atOnce(calls: number, token?: string): Promise<[number, string[]]> {
  const answers = await Promise.all(Array.from({ length: calls }, (_, n) => execute(`task ${n}`, token)))
  const done = answers.filter(({ status }) => status === 200)
  for (const { body } of done)
    expect((body as ExecutionResult).payment).toMatchObject({ channel_id: expect.any(String) })
  paid += done.length
  return [done.length, answers.flatMap(({ status, body }) => (status === 200 ? [] : [(body as { code: string }).code]))]
}

/** What the seller has charged on the channel, and what the buyer has counted. */
async function charged() {
  const of = async ({ url }: TestNode) => (await ask<ChannelRecord[]>(url, '/channels'))[0]!.charged
  return [await of(seller), await of(buyer)]
}

test('the budget of a token holds to the unit, and a failed run gives it back', async () => {
  const body = { name: 'assistant', scope: 'spend', budget: usdc(3) }
  const { id: tokenId, token } = await ask<{ id: string; token: string }>(buyer.url, '/tokens', { body })
  const before = await charged()
  expect((await execute('fail', token)).body).toMatchObject({ code: 'EXECUTION_FAILED' })
  expect(await charged()).toEqual(before)
  expect(await atOnce(5, token)).toEqual([3, ['OVER_BUDGET', 'OVER_BUDGET']])
  const tokens = await ask<{ id: string; spent: string }[]>(buyer.url, '/tokens')
  expect(tokens.find((one) => one.id === tokenId)).toMatchObject({ spent: usdc(3) })
  // It is the token that has no more.
  expect(await atOnce(1)).toEqual([1, []])
})

test('the limit of one seller counts what channels have paid, and what is under way', async () => {
  await rules({ per_seller: usdc(paid + 2) })
  expect(await atOnce(4)).toEqual([2, ['OVER_BUDGET', 'OVER_BUDGET']])
  await rules({ per_seller: usdc(paid + 1) })
  expect(await atOnce(2)).toEqual([1, ['OVER_BUDGET']])
})

test('a call that needs an approval signs nothing before it, and is paid by the channel after it', async () => {
  await rules({ auto_approve_below: usdc(1) })
  const before = await charged()
  const [denied, approved] = await Promise.all(['no', 'yes'].map((task) => execute(task)))
  const asked = [denied, approved].map(
    (answer) => answer!.body as { code: string; order_id: string; approval_id: string },
  )
  expect(asked.map(({ code }) => code)).toEqual(['APPROVAL_REQUIRED', 'APPROVAL_REQUIRED'])
  expect(await charged()).toEqual(before)
  const [no, yes] = asked as [(typeof asked)[number], (typeof asked)[number]]
  await ask(buyer.url, `/approvals/${no.approval_id}/deny`, { method: 'POST', body: {} })
  await ask(buyer.url, `/approvals/${yes.approval_id}/approve`, { method: 'POST', body: {} })
  const order = (orderId: string) => ask<OrderRecord>(buyer.url, `/orders/${orderId}`)
  await until(async () => (await order(yes.order_id)).status === 'completed', WAIT)
  paid += 1
  expect((await order(yes.order_id)).payment).toMatchObject({ channel_id: expect.any(String), settlement: 'settled' })
  expect((await order(no.order_id)).payment).toBeUndefined()
  expect(await charged()).toEqual(before.map((sum) => usdc(Math.round(Number(sum) * 1_000) + 1)))
})

test('both sides and the statistics have each paid call once', async () => {
  const total = async () => (await buyer.node.stats({ days: 1 })).paid.total_atomic
  await until(async () => (await total()) === (PRICE * BigInt(paid)).toString(), WAIT)
  const [sold, bought] = await charged()
  expect(sold).toBe(bought)
})
