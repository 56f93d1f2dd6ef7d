/** What GET /config shows is what holds, whether it was set, is a default, or was changed since. */
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, expect, test } from 'vitest'
import type { Configuration } from '../../src/schema/configuration.ts'
import { startTestNode, stopTestNodes } from '../support/loopback-node.ts'

afterAll(stopTestNodes)

test('limits and defaults are shown as they are in force, also after a change of the budget', async () => {
  const node = await startTestNode({ key: generatePrivateKey(), apiEnabled: true, dailyBudgetAtomic: 3_000_000n })
  const shown = async (...keys: string[]) => {
    const { settings } = (await (await fetch(`${node.apiUrl}/config`)).json()) as Configuration
    return keys.map((key) => settings.find((setting) => setting.key === key)?.value)
  }
  const guard = ['seller.unsettled_per_payer', 'seller.unsettled_max', 'seller.check_funds_from']
  expect(await shown(...guard, 'buyer.daily_budget', 'buyer.approval_minutes')).toEqual(['10', '100', '1', '3', 60])
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify({ per_day: '7', per_month: '50', deny: ['did:peer:0z6Mk'] })
  expect((await fetch(`${node.apiUrl}/budget`, { method: 'PUT', headers, body })).status).toBe(200)
  expect(await shown('buyer.daily_budget', 'buyer.monthly_budget', 'buyer.deny')).toEqual([
    '7',
    '50',
    ['did:peer:0z6Mk'],
  ])
})
