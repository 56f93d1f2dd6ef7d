import { expect, test } from 'vitest'
import { fakeServer, listingFixture } from '../../../test/support/fake-api.ts'
import { fakeMarket, heldApproval } from '../../../test/support/fake-market.ts'

test('ADR-13 POST /approvals/decide decides several, each by itself', async () => {
  const paid = listingFixture({ price: 50_000n, price_atomic: '50000' })
  const market = await fakeMarket(() => [paid], { rules: { autoApproveBelowAtomic: 10_000n } })
  const ids = [await heldApproval(market, paid), await heldApproval(market, paid), await heldApproval(market, paid)]
  const { app } = fakeServer({ approvals: market.approvals })
  const decide = async (payload: object) => {
    const answer = await app.inject({ method: 'POST', url: '/approvals/decide', payload })
    return { status: answer.statusCode, body: answer.json() }
  }
  await app.inject({ method: 'POST', url: `/approvals/${ids[0]}/approve` })
  const { status, body } = await decide({ ids, verdict: 'denied' })
  expect(status).toBe(200)
  expect(body.map((one: { id: string; status: string }) => [one.id, one.status])).toEqual([
    [ids[0], 'approved'],
    [ids[1], 'denied'],
    [ids[2], 'denied'],
  ])
  expect(await decide({ ids: [...ids, 'nobody'], verdict: 'approved' })).toMatchObject({
    status: 404,
    body: { code: 'UNKNOWN_APPROVAL' },
  })
  for (const wrong of [{ ids: [], verdict: 'denied' }, { ids }, { ids: Array(101).fill('a'), verdict: 'denied' }]) {
    expect((await decide(wrong)).status).toBe(400)
  }
})
