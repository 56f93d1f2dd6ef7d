import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { listingFixture } from '../../test/support/fake-api.ts'
import { agentId, payTo, randomHex, requirements, usdc } from '../../test/support/payments.ts'
import { ScriptedSeller, type ScriptedStream } from '../../test/support/scripted-seller.ts'
import { testBudget } from '../../test/support/test-budget.ts'
import { systemClock } from '../lib/clock.ts'
import { type OpenStream, StreamPool } from '../protocols/streams.ts'
import type { Listing } from '../schema/listing.ts'
import { X402_PROTOCOL } from '../schema/x402.ts'
import { openDatabase } from '../store/database.ts'
import { createPurchases } from '../store/purchases.ts'
import type { BudgetRules } from './budget-rules.ts'
import { quote } from './quote.ts'

const listed = listingFixture({ id: agentId, price: 10_000n, asset: usdc.address, pay_to: payTo })

function setUp(
  script: (stream: ScriptedStream) => Promise<void>,
  listing: Listing = listed,
  rules: Partial<BudgetRules> = {},
  /** What other processes of the seller answer. */
  elsewhere = script,
) {
  const seller = new ScriptedSeller(script)
  const others = new ScriptedSeller(elsewhere)
  const open: OpenStream = (_peer, _protocol, _signal, options) => (options?.instead ? others : seller).open()
  const streams = new StreamPool({ protocol: X402_PROTOCOL }, { open })
  const catalog = { resolve: (id: string) => (id === listing.id ? listing : undefined) }
  const purchases = createPurchases(openDatabase({ path: ':memory:' }))
  const budget = testBudget(rules, { clock: systemClock, purchases })
  const deps = { catalog, streams, callerDid: 'did:peer:me', newCorrelationId: randomUUID, budget, purchases }
  const signal = AbortSignal.timeout(10_000)
  return { seller, others, ask: (id = listing.id, outer = signal) => quote(id, deps, outer) }
}
const challenges =
  (changes: object = {}) =>
  async (stream: ScriptedStream) => {
    for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
      await stream.challenge(message, { challenge_expires_at: 1_800_000_000, ...changes })
    }
  }

test('a quote is what the seller asks now, and neither tells the task nor pays', async () => {
  const { seller, ask } = setUp(challenges())
  expect(await ask()).toEqual({
    agent_id: agentId,
    price: '0.01',
    price_atomic: '10000',
    network: usdc.network,
    asset: usdc.address,
    pay_to: payTo,
    source: 'seller',
    expires_at: '2027-01-15T08:00:00.000Z',
    matches_listing: true,
    allowed: true,
  })
  await ask()
  expect([seller.opened, seller.received.length]).toEqual([1, 2])
  for (const { message } of seller.received) expect(message).toMatchObject({ payment: null, body: '' })
})

test.each<[string, object, RegExp]>([
  ['more', { amount: 10_001n }, /asks for 0\.010001 USDC/],
  ['less', { amount: 9_999n }, /asks for 0\.009999 USDC/],
  ['another account', { payTo: randomHex(20) }, /pay/],
  ['another network', { network: 'eip155:8453' }, /network|payment on/],
])('T2 a seller that asks for %s than it listed is shown as one nobody here would pay', async (_, change, reason) => {
  const { ask } = setUp(challenges({ payment_requirements: requirements(change) }))
  expect(await ask()).toMatchObject({ matches_listing: false, allowed: false, reason: expect.stringMatching(reason) })
})

test.each<[string, Partial<BudgetRules>, RegExp]>([
  ['one call', { perCall: 9_999n }, /a call/],
  ['the day', { perDay: 9_999n }, /daily budget/],
  ['the month', { perMonth: 9_999n }, /monthly budget/],
  ['one seller', { perSeller: 9_999n }, /one seller/],
  ['denied agents', { deny: [agentId] }, /denies/],
  ['allowed sellers', { allow: ['somebody'] }, /other sellers/],
])('what is over the limit of %s is not allowed, and why', async (_, rules, reason) => {
  expect(await setUp(challenges(), listed, rules).ask()).toMatchObject({
    matches_listing: true,
    allowed: false,
    reason: expect.stringMatching(reason),
  })
})

test('what needs an approval is allowed, and says so', async () => {
  const asked = await setUp(challenges(), listed, { autoApproveBelow: 10_000n }).ask()
  expect(asked).toMatchObject({
    allowed: true,
    needs_approval: true,
    reason: expect.stringMatching(/waits for the operator's approval/),
  })
})

test('nobody is asked for what is free or hosted here', async () => {
  const silent = () => expect.fail('was asked')
  expect(await setUp(silent, { ...listed, price: 0n }).ask()).toMatchObject({ price: '0', source: 'listing' })
  expect(await setUp(silent, { ...listed, local: true }).ask()).toMatchObject({ price: '0', source: 'listing' })
})

test('T8 a time that is none is left out', async () => {
  for (const challenge_expires_at of [-1, Number.MAX_SAFE_INTEGER]) {
    expect(await setUp(challenges({ challenge_expires_at })).ask()).not.toHaveProperty('expires_at')
  }
})

test('a stream that died unnoticed is replaced, and a seller that cannot be reached is said to be so', async () => {
  const fragile = async (stream: ScriptedStream) => {
    const message = await stream.next()
    await stream.challenge(message)
    stream.raw.abort(new Error('idle'))
  }
  const { seller, ask } = setUp(fragile)
  await ask()
  await ask()
  expect(seller.opened).toBe(2)
  await expect(setUp((stream) => Promise.resolve(stream.raw.abort(new Error('gone')))).ask()).rejects.toMatchObject({
    code: 'SELLER_UNREACHABLE',
  })
})

test.each(['OVERLOADED', 'UNKNOWN_RESOURCE'])(
  'where one process of a seller answers %s, another is asked',
  async (name) => {
    const refusing = async (stream: ScriptedStream) => stream.refuse(await stream.next(), name)
    const { ask, seller, others } = setUp(refusing, listed, {}, challenges())
    expect(await ask()).toMatchObject({ price: '0.01', source: 'seller' })
    expect([seller.opened, others.opened]).toEqual([1, 1])
    const busy = setUp(refusing, listed, {}, refusing)
    await expect(busy.ask()).rejects.toMatchObject({ code: name })
    expect(busy.seller.opened + busy.others.opened).toBeLessThanOrEqual(3)
  },
)

test('what the seller refuses is passed on, and what nobody lists is unknown', async () => {
  const { ask } = setUp(async (stream) => stream.refuse(await stream.next(), 'UNKNOWN_RESOURCE'))
  await expect(ask()).rejects.toMatchObject({ code: 'UNKNOWN_RESOURCE' })
  await expect(ask('nobody')).rejects.toMatchObject({ code: 'UNKNOWN_AGENT' })
})

test('a paid agent that answers without being paid is no offer', async () => {
  const { ask } = setUp(async (stream) => stream.respond(await stream.next()))
  await expect(ask()).rejects.toMatchObject({ code: 'INVALID_MESSAGE' })
})

test('D45 a quote says that the seller settles before its agent runs', async () => {
  const asked = { ...requirements(), extra: { settles_first: true } }
  const { ask } = setUp(challenges({ payment_requirements: asked }))
  expect(await ask()).toMatchObject({ settles_first: true, allowed: true })
})
