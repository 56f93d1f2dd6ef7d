import { expect, test } from 'vitest'
import { listingFixture } from '../../test/support/fake-api.ts'
import { fakeMarket } from '../../test/support/fake-market.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import type { Caller } from '../schema/caller.ts'

const paid = listingFixture({ id: 'paid', price: 50_000n, price_atomic: '50000' })
const own = listingFixture({ id: 'own', local: true, price: 0n, price_atomic: '0' })
const rules = { autoApproveBelowAtomic: 10_000n }
type Market = Awaited<ReturnType<typeof fakeMarket>>

async function tokenOf({ tokens }: Market, limits: { budget?: bigint; per_day?: bigint } = {}): Promise<Caller> {
  const { id } = await tokens.create({ name: 'assistant', scope: 'spend', budget: 5_000_000n, ...limits })
  return { scope: 'spend', tokenId: id }
}
const hold = ({ execute }: Market, input: string, caller?: Caller) =>
  execute({ agentId: 'paid', input, signal: AbortSignal.timeout(10_000), ...(caller && { caller }) }).catch(
    (error: { code: string; approvalId?: string }) => error,
  ) as Promise<{ code: string; approvalId: string }>

test('T19 a token may have 100 approvals pending, and the others go on', async () => {
  const market = await fakeMarket(() => [paid], { rules })
  const [greedy, modest] = [await tokenOf(market), await tokenOf(market)]
  for (let number = 0; number < 100; number++) {
    expect((await hold(market, `task ${number}`, greedy)).code).toBe('APPROVAL_REQUIRED')
  }
  expect((await hold(market, 'one more', greedy)).code).toBe('APPROVALS_TOO_MANY')
  expect((await hold(market, 'modest', modest)).code).toBe('APPROVAL_REQUIRED')
  expect((await hold(market, 'the operator')).code).toBe('APPROVAL_REQUIRED')
})

test('T19 a token may have 100 workflows open, and the others go on', async () => {
  const market = await fakeMarket(() => [own], { runOwn: () => new Promise<string>(() => {}) })
  const [greedy, modest] = [await tokenOf(market), await tokenOf(market)]
  const step = { retries: 0, fallback: [], input: undefined, dependsOn: undefined, maxPrice: undefined }
  const begin = (caller?: Caller) =>
    market.workflows.create(
      { name: undefined, input: 'go', budget: undefined, steps: [{ id: 'a', agentId: 'own', ...step }] },
      caller,
    )
  for (let number = 0; number < 100; number++) await begin(greedy)
  await expect(begin(greedy)).rejects.toMatchObject({ code: 'WORKFLOWS_TOO_MANY' })
  expect(await begin(modest)).toMatchObject({ id: expect.any(String) })
  expect(await begin()).toMatchObject({ id: expect.any(String) })
})

test('ADR-13 several approvals are decided at once: what cannot be decided any more holds up nobody', async () => {
  const clock = new HandClock()
  const market = await fakeMarket(() => [paid], { rules, clock })
  const ids = [await hold(market, 'a'), await hold(market, 'b'), await hold(market, 'c')].map(
    ({ approvalId }) => approvalId,
  )
  const [first, second, third] = ids as [string, string, string]
  await market.approvals.decide(first, 'denied')
  await expect(market.approvals.decideAll([second, 'nobody'], 'denied')).rejects.toMatchObject({
    code: 'UNKNOWN_APPROVAL',
  })
  expect((await market.approvals.get(second)).status).toBe('pending')
  const decided = await market.approvals.decideAll([first, second, third, second], 'approved')
  expect(decided.map(({ id, status }) => [id, status])).toEqual([
    [first, 'denied'],
    [second, 'approved'],
    [third, 'approved'],
    [second, 'approved'],
  ])
})

test.each([
  ['its own budget', { budget: 70_000n }, '0.02', '0.02'],
  ['its own day', { per_day: 60_000n }, '0.01', '4.95'],
  ['no limit of its own that is nearer', {}, '1.95', '4.95'],
])('ADR-13 an approval shows what is left then for a token with %s', async (_what, limits, today, month) => {
  const market = await fakeMarket(() => [paid], { rules: { ...rules, dailyBudgetAtomic: 2_000_000n } })
  const { approvalId } = await hold(market, 'task', await tokenOf(market, limits))
  expect(await market.approvals.get(approvalId)).toMatchObject({
    requester: { kind: 'token', token_name: 'assistant' },
    budget_after: { left_today: today, left_month: month },
  })
  const { approvalId: operators } = await hold(market, 'task of the operator')
  expect(await market.approvals.get(operators)).toMatchObject({
    budget_after: { left_today: '1.95', left_month: null },
  })
})
