/**
 * T6 One attacker sells an agent and has the agent of an honest seller buy it: whatever it does as the buyer of that one, it
 * never gets money for nothing.
 */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { discovered } from '../support/api-calls.ts'
import { eachByItself } from '../support/each-by-itself.ts'
import {
  type Front,
  type FrontMarket,
  FUNDS,
  INNER,
  OUTER,
  refusal,
  run,
  signedBy,
  startFrontMarket,
} from '../support/front-market.ts'
import type { TestNodeOptions } from '../support/test-node.ts'
import { until } from '../support/until.ts'

let market: FrontMarket
beforeAll(async () => {
  market = await startFrontMarket()
})
afterEach(() => market.stopNodes())
afterAll(() => market?.stop())

async function buyerOf(selling: Front, options: TestNodeOptions = {}) {
  const buyer = await market.funded({ ...options, ...eachByItself }, [selling])
  await discovered(buyer.url, selling.id)
  return buyer
}

/** Purchases that may be ahead of what they earn. */
const AHEAD = 8

test('T6 runs that fail after their purchase cost their seller little: soon each is paid for before it runs', async () => {
  const selling = await market.front({ output_bytes_max: 1_000 }, eachByItself)
  const buyer = await buyerOf(selling)
  const ask = (n: number) => refusal(run({ node: buyer.node, id: selling.id }, { input: `${n}${'x'.repeat(1_000)}` }))
  const MORE = 2
  for (let n = 0; n < AHEAD + MORE; n++) await ask(n)
  // What was bought has come, and was paid for.
  const completed = async () => (await signedBy(selling)).filter(({ status }) => status === 'completed')
  await until(async () => (await completed()).length === AHEAD + MORE)
  const left = FUNDS - BigInt(AHEAD + MORE) * INNER + BigInt(MORE) * OUTER
  await until(async () => (await market.balance(selling.key)) === left)

  // D45: whoever allows no settling first is told before it signs.
  const careful = await buyerOf(selling, { buyer: { allowSettleFirst: false } })
  expect(await refusal(run({ node: careful.node, id: selling.id }))).toMatchObject({ code: 'SETTLES_FIRST' })
  expect(await signedBy(careful)).toEqual([])
})
