/** Catalogs on the market page: entries stand apart from agents, and nothing of them runs or covers the page. */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { startBazaar } from '../support/bazaar.ts'
import { launchBrowser, visit } from '../support/browser.ts'
import { startTestNode } from '../support/test-node.ts'

let browser: Browser
beforeAll(async () => {
  browser = await launchBrowser()
})
afterAll(() => browser?.close())

const terms = {
  ...{ scheme: 'exact', network: 'eip155:8453', asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913', amount: '20000' },
  payTo: '0x1111111111111111111111111111111111111111',
}
const item = (serviceName: string) => ({
  ...{ resource: 'https://weather.example/now', type: 'http', x402Version: 2, accepts: [terms] },
  ...{ lastUpdated: '2026-11-20T10:00:00Z', serviceName, description: '<b>Of today</b>' },
})

test('T38: the market page shows entries of catalogs apart, and says why one is not buyable', async () => {
  const bazaar = await startBazaar([item('<img src=x onerror=alert(1)>')])
  const gone = { url: 'http://127.0.0.1:9/x402', name: 'gone' }
  const node = await startTestNode({ sources: [{ url: bazaar.url, name: 'bazaar' }, gone] })
  onTestFinished(() => node.stop())
  const { page, close } = await visit(browser, node.url)
  await page.goto(`${node.url}/dashboard/market?q=weather`)
  await page.getByText('No agent matches').waitFor()
  expect(bazaar.asked).toEqual([])
  await page.getByRole('button', { name: 'Search catalogs too' }).click()
  const entry = page.getByRole('list', { name: 'Entries of catalogs' }).getByRole('listitem')
  await entry.getByText('<img src=x onerror=alert(1)>').waitFor()
  await entry.getByText('https://weather.example/now').waitFor()
  await entry.getByText('It is paid on Base, real money').waitFor()
  await page.getByText('gone failed').waitFor()
  expect(await page.getByRole('list', { name: 'Agents on the market' }).count()).toBe(0)
  await page.getByRole('button', { name: 'Hide' }).click()
  expect(await entry.count()).toBe(0)
  await close()
})

test('without a configured catalog the page has no word of catalogs', async () => {
  const node = await startTestNode()
  onTestFinished(() => node.stop())
  const { page, close } = await visit(browser, node.url)
  await page.goto(`${node.url}/dashboard/market`)
  await page.getByText('No agent is known yet').waitFor()
  expect(await page.getByText('Catalogs').count()).toBe(0)
  await close()
})
