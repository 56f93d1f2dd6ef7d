/** What the dashboard says of money: the header, approvals, orders and payments, on a real chain. */
import { rm } from 'node:fs/promises'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { ApprovalRecord } from '../../src/schema/approval.ts'
import type { Listing } from '../../src/schema/listing.ts'
import { launchBrowser, visit } from '../support/browser.ts'
import { testDir } from '../support/loopback-node.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

let browser: Browser
let devnet: Devnet
let seller: TestNode
let buyer: TestNode
let home: string
const listed: Record<string, Listing> = {}

beforeAll(async () => {
  home = await testDir()
  ;[browser, devnet] = await Promise.all([launchBrowser(), startDevnet()])
  seller = await startTestNode({ devnet, walletKey: devnet.wallets.seller.privateKey })
  const agents = [{ name: 'Echo', description: 'Says it again.', price: 10_000n, model: 'builtin/echo' }]
  for (const agent of agents) listed[agent.name] = await seller.node.registerAgent(agent, { persist: false })
  buyer = await startTestNode({
    devnet,
    walletKey: devnet.wallets.buyer.privateKey,
    bootstrap: [seller.node.addresses()[0]!],
  })
  await until(() => buyer.node.listings().length === agents.length, { timeoutMs: 30_000 })
})
afterAll(async () => {
  await browser?.close()
  await Promise.all([buyer?.stop(), seller?.stop()])
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

const open = (page: Page, node: TestNode, path = '') => page.goto(`${node.url}/dashboard${path}`)

async function api<T>(node: TestNode, method: string, path: string, body?: object): Promise<T> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(node.url + path, { method, ...(body && { headers, body: JSON.stringify(body) }) })
  return (await response.json()) as T
}

async function faultsOf(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page }).analyze()
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).slice(0, 3)}`)
}

test('D37 every page says whose node it is, that its money is test money, and how much of it there is', async () => {
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

test('an approval shows its task, who asked and the budget after, and several are approved at once', async () => {
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
  await page.getByLabel('Select all 3, 0.03 USDC in all').check()
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
