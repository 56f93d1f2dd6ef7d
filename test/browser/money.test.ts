/** What the dashboard says of money: the header, approvals, orders and payments, on a real chain. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ApprovalRecord } from '../../src/schema/approval.ts'
import type { Listing } from '../../src/schema/listing.ts'
import type { OrderRecord } from '../../src/schema/order.ts'
import { launchBrowser, visit } from '../support/browser.ts'
import type { TestNode } from '../support/test-node.ts'
import { startTradingPair, type TradingPair } from '../support/trading-pair.ts'
import { until } from '../support/until.ts'

const REPORT = `# Review

The **market** grew: see [the report](https://reports.example/q3) and [bank.example](javascript:document.title='owned').

| Region | Share |
|---|---:|
| Europe | 61 % |

![pixel](https://evil.example/t.png) <img src="x" onerror="document.title='owned'"> <script>document.title='owned'</script>
`

let browser: Browser
let pair: TradingPair
let seller: TestNode
let buyer: TestNode
let listed: Record<string, Listing>

beforeAll(async () => {
  const sold = async (home: string) => {
    await writeFile(join(home, 'report.md'), REPORT)
    return [
      { name: 'Echo', description: 'Says it again.', price: 10_000n, model: 'builtin/echo' },
      {
        name: 'Analyst',
        description: 'Writes reports.',
        price: 20_000n,
        command: ['/bin/cat', join(home, 'report.md')],
      },
      { name: 'Broken', description: 'Fails.', price: 30_000n, command: ['/bin/false'] },
    ]
  }
  ;[browser, pair] = await Promise.all([launchBrowser(), startTradingPair(sold)])
  ;({ seller, buyer, listed } = pair)
})
afterAll(async () => {
  await browser?.close()
  await pair?.stop()
})

const open = (page: Page, node: TestNode, path = '') => page.goto(`${node.url}/dashboard${path}`)

async function api<T>(node: TestNode, method: string, path: string, body?: object): Promise<T> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(node.url + path, { method, ...(body && { headers, body: JSON.stringify(body) }) })
  return (await response.json()) as T
}

/** Buys, and waits for the end. */
async function bought(agent: string, task: string): Promise<OrderRecord> {
  const body = { agent_id: listed[agent]!.id, price: '0.50', task }
  const { id } = await api<OrderRecord>(buyer, 'POST', '/orders', body)
  return api<OrderRecord>(buyer, 'GET', `/orders/${id}?wait=30`)
}

async function faultsOf(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page }).analyze()
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).slice(0, 3)}`)
}

test('D37 every page shows the name of the node, that its money is test money, and the balance', async () => {
  const { page, close } = await visit(browser, buyer.url)
  for (const path of ['', '/market', '/payments', '/settings']) {
    await open(page, buyer, path)
    const header = page.getByRole('region', { name: 'This node' })
    await header.getByText('TEST', { exact: false }).waitFor()
    await header.getByText('Base Sepolia').waitFor()
    await header.getByText(/^(Balance )?[\d,.]+ USDC$/).waitFor()
  }
  await close()
})

test('an approval shows its task, who asked and the budget after it, and several are approved at once', async () => {
  await api(buyer, 'PUT', '/budget', { auto_approve_below: '0.005', per_day: '5' })
  const tasks = ['first task', 'second task', 'third task']
  for (const task of tasks) {
    await api(buyer, 'POST', '/orders', { agent_id: listed.Echo!.id, price: '0.50', task })
  }
  const waiting = () => api<ApprovalRecord[]>(buyer, 'GET', '/approvals?status=pending')
  await until(async () => (await waiting()).length === tasks.length)
  const { page, close } = await visit(browser, buyer.url)
  await open(page, buyer, '/approvals')
  const items = page.getByRole('list', { name: 'Purchases that wait' }).getByRole('listitem')
  const first = items.filter({ hasText: 'first task' })
  await first.getByText('you, the operator').waitFor()
  await first.getByText(/4\.\d+ USDC left today/).waitFor()
  expect(await faultsOf(page)).toEqual([])
  await page.getByLabel('Select all 3, 0.03 USDC in total').check()
  await first.getByRole('checkbox').uncheck()
  await page.getByText('2 selected, 0.02 USDC').waitFor()
  await page.getByRole('button', { name: 'Approve 2 and pay' }).click()
  await page.getByText('2 approved.').waitFor()
  expect((await waiting()).map(({ task }) => task)).toEqual(['first task'])
  await page.getByRole('link', { name: '1 to approve' }).waitFor()
  await page.getByRole('button', { name: 'Deny' }).click()
  await page.getByText('No purchase waits for approval.').waitFor()
  await page.getByRole('cell', { name: 'denied' }).waitFor()
  await api(buyer, 'PUT', '/budget', { auto_approve_below: null })
  await close()
})

test('T10 an order shows task and result first, without HTML, scripts or images of the seller', async () => {
  const order = await bought('Analyst', 'Review the market.')
  const { page, close } = await visit(browser, buyer.url)
  await open(page, buyer, `/orders/${order.id}`)
  const result = page.getByRole('region', { name: 'Result of the agent' })
  await result.getByRole('heading', { name: 'Review' }).waitFor()
  await result.getByRole('cell', { name: '61 %' }).waitFor()
  expect(await page.locator('main img, main script, main iframe').count()).toBe(0)
  const links = await Promise.all(
    (await result.getByRole('link').all()).map(async (link) => [
      await link.getAttribute('href'),
      await link.getAttribute('rel'),
      await link.textContent(),
    ]),
  )
  expect(links).toEqual([
    ['https://reports.example/q3', 'noopener noreferrer nofollow', 'the report reports.example ↗'],
    ['https://evil.example/t.png', 'noopener noreferrer nofollow', 'image: pixel evil.example ↗'],
  ])
  await result.getByText("[bank.example](javascript:document.title='owned')").waitFor()
  expect(await page.title()).toBe('Order · Stoa')

  // D41, D42: what it cost, in the word of the books, as the chain has it.
  await page.getByText('paid', { exact: true }).waitFor()
  await page.getByText('the chain shows the transfer').waitFor()
  const frames = page.getByRole('list', { name: 'Frames, in their order' })
  expect(await frames.count()).toBe(0)
  await page.getByText('Exchange, frame by frame').click()
  await frames.waitFor()
  expect(await faultsOf(page)).toEqual([])
  await page.getByRole('button', { name: 'As text' }).click()
  await result.getByText('# Review').waitFor()
  await close()
})

test('D42 the overview shows a buyer paid, held and remaining amounts, failures and purchases', async () => {
  const { page, close } = await visit(browser, buyer.url)
  const failed = await bought('Broken', 'break')
  expect(failed.status).toBe('failed')
  await open(page, buyer)
  const figure = (label: string) => page.locator('.figure', { hasText: label })
  await figure('Held').getByText('0.03', { exact: true }).waitFor()
  await figure('Budget left today').getByText('0.04 paid and 0.03 held of 5.00').waitFor()
  const latest = page.getByRole('list', { name: 'Latest purchases' }).getByRole('listitem')
  await latest.filter({ hasText: 'Analyst' }).getByText('paid', { exact: true }).waitFor()
  await latest.filter({ hasText: 'Broken' }).getByText('held', { exact: true }).waitFor()
  expect(await faultsOf(page)).toEqual([])
  await figure('Failed in 24 h').getByRole('link', { name: 'See the latest' }).click()
  await page.getByText('signed; may still be charged until').waitFor()
  await close()
})

test('D42 payments are shown by book, each with its meaning', async () => {
  const { page, close } = await visit(browser, buyer.url)
  await open(page, buyer, '/payments')
  const rows = page.getByRole('list', { name: 'Payments, newest first' }).getByRole('listitem')
  await rows.filter({ hasText: 'Analyst' }).getByText('−0.02 USDC').waitFor()
  await page.getByRole('button', { name: 'Held', exact: true }).click()
  await page.getByText('Held: signed, and may still be charged.').waitFor()
  await rows.filter({ hasText: 'Broken' }).waitFor()
  await rows.filter({ hasText: 'Analyst' }).waitFor({ state: 'detached' })
  expect(new URL(page.url()).search).toBe('?book=held')
  expect(await faultsOf(page)).toEqual([])
  await close()
  const other = await visit(browser, seller.url)
  await open(other.page, seller, '/payments')
  const sold = other.page.getByRole('list', { name: 'Payments, newest first' }).getByRole('listitem')
  await sold.filter({ hasText: 'Analyst' }).getByText('+0.02 USDC').waitFor()
  await sold.filter({ hasText: 'Broken' }).getByText('not charged').waitFor()
  await other.close()
})

test('on a phone no amount of a purchase is shown without what became of it', async () => {
  const budget = (auto_approve_below: string | null) => api(buyer, 'PUT', '/budget', { auto_approve_below })
  await budget('0.001')
  const body = { agent_id: listed.Echo!.id, price: '0.50', task: 'waits' }
  const { id } = await api<OrderRecord>(buyer, 'POST', '/orders', body)
  await until(async () => (await api<OrderRecord>(buyer, 'GET', `/orders/${id}`)).approval_id)
  await budget(null)
  const { page, close } = await visit(browser, buyer.url, { viewport: { width: 390, height: 800 } })
  await open(page, buyer)
  const rows = page.getByRole('list', { name: 'Latest purchases' }).getByRole('listitem')
  await rows.filter({ hasText: 'waits for approval' }).waitFor()
  const cut = await page.evaluate(`[...document.querySelectorAll('.plain-rows .row-side > span')]
    .filter((one) => one.scrollWidth > one.clientWidth)
    .map((one) => one.textContent)`)
  expect(cut).toEqual([])
  await close()
})
