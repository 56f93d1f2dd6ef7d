/** The pages of payment channels, after real calls over a channel on a real chain. */
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { ExecutionResult } from '../../src/schema/api.ts'
import type { ChannelRecord } from '../../src/schema/channel-record.ts'
import { ask, discovered } from '../support/api-calls.ts'
import { launchBrowser, visit } from '../support/browser.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

let browser: Browser
let devnet: Devnet
let seller: TestNode
let buyer: TestNode
let agentId: string
let channel: ChannelRecord
/** A call that the channel has paid. */
let order: string

const buy = () => {
  const body = { task: `say ${Math.random()}` }
  return ask<ExecutionResult>(buyer.url, `/agents/${agentId}/execute`, { body })
}

beforeAll(async () => {
  ;[browser, devnet] = await Promise.all([launchBrowser(), startDevnet()])
  const { wallets } = devnet
  seller = await startTestNode({ devnet, walletKey: wallets.seller.privateKey, seller: { channels: 'auto' } })
  const agent = { name: 'Echo', description: 'Says it again.', price: 1_000n, model: 'builtin/echo' }
  ;({ id: agentId } = await seller.node.registerAgent(agent, { persist: false }))
  const bootstrap = [seller.node.addresses()[0]!]
  buyer = await startTestNode({ devnet, bootstrap, walletKey: wallets.buyer.privateKey, channels: 'auto' })
  await discovered(buyer.url, agentId)
  order = await until(
    async () => {
      const { payment, order_id } = await buy()
      return payment?.channel_id === undefined ? undefined : order_id
    },
    { timeoutMs: 60_000, everyMs: 200 },
  )
  await Promise.all([buy(), buy()])
  ;[channel] = (await ask<ChannelRecord[]>(buyer.url, '/channels')) as [ChannelRecord]
}, 120_000)
afterAll(async () => {
  await browser?.close()
  await buyer?.stop()
  await seller?.stop()
  await devnet?.stop()
})

const open = (page: Page, node: TestNode, path = '') => page.goto(`${node.url}/dashboard${path}`)

async function faultsOf(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page }).analyze()
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).slice(0, 3)}`)
}

const rowsOf = (page: Page) => page.getByRole('list', { name: 'Channels, newest first' }).getByRole('listitem')
const figure = (page: Page, label: string) => page.locator('.figure', { hasText: label })

test('both sides see the channel: what is locked and charged at the buyer, what is not claimed at the seller', async () => {
  const bought = await visit(browser, buyer.url)
  await open(bought.page, buyer, '/channels')
  await bought.page.getByRole('heading', { name: 'You pay' }).waitFor()
  await figure(bought.page, 'Charged').getByText('0.003', { exact: true }).waitFor()
  await figure(bought.page, 'Locked').getByText('0.097', { exact: true }).waitFor()
  const row = rowsOf(bought.page).first()
  await row.getByText('3 calls · 0.003 USDC charged').waitFor()
  await row.getByText('open', { exact: true }).waitFor()
  expect(await faultsOf(bought.page)).toEqual([])
  // By keyboard alone: the row is a link.
  await row.getByRole('link').focus()
  await bought.page.keyboard.press('Enter')
  await bought.page.getByRole('heading', { name: 'Channel to a seller' }).waitFor()
  await bought.page.getByText('0.003 USDC in 3 calls').waitFor()
  const legend = bought.page.getByRole('list', { name: 'What became of the deposits' })
  await legend.getByText('spent, and not claimed by the seller yet').waitFor()
  expect(await faultsOf(bought.page)).toEqual([])
  await bought.close()

  const sold = await visit(browser, seller.url)
  await open(sold.page, seller, '/channels?role=seller')
  await sold.page.getByRole('heading', { name: 'You are paid' }).waitFor()
  await figure(sold.page, 'Not claimed').getByText('0.003', { exact: true }).waitFor()
  await rowsOf(sold.page).first().getByText('0.003 USDC not claimed').waitFor()
  await sold.page.getByRole('button', { name: 'You pay' }).click()
  await sold.page.getByText('No channels').waitFor()
  expect(new URL(sold.page.url()).search).toBe('?role=buyer')
  await sold.close()
})

test('an order and the list of payments say that a channel paid, and lead to it; the wallet shows what is locked', async () => {
  const { page, close } = await visit(browser, buyer.url)
  await open(page, buyer, `/orders/${order}`)
  await page.getByText('charged on a payment channel').waitFor()
  expect(await faultsOf(page)).toEqual([])
  await page.getByRole('link', { name: 'view', exact: true }).click()
  await page.getByRole('heading', { name: 'Channel to a seller' }).waitFor()
  await open(page, buyer, '/payments')
  await page.getByText('on channel').first().waitFor()
  await open(page, buyer, '/wallet')
  await page.getByRole('heading', { name: 'In payment channels' }).waitFor()
  await figure(page, 'Locked').getByText('0.097', { exact: true }).waitFor()
  await close()
})

test('a seller gives an agent prices by use, and a price only for who has no channel; they are shown again', async () => {
  const agent = { name: 'Timed', description: 'Says it again.', price: 2_000n, model: 'builtin/echo' }
  const { id } = await seller.node.registerAgent(agent, { persist: false })
  const { page, close } = await visit(browser, seller.url)
  await open(page, seller, `/agents/${id}`)
  await page.getByText('Prices by use').click()
  await page.getByLabel('A second', { exact: true }).fill('0.001')
  await page.getByLabel('At most, a call').fill('0.0015')
  expect(await faultsOf(page)).toEqual([])
  await page.getByRole('button', { name: 'Save' }).click()
  type Own = { id: string; price: string; pricing?: object; on_channels_only?: true }
  const own = async () => (await ask<Own[]>(seller.url, '/agents/own')).find((one) => one.id === id)!
  await until(async () => (await own()).pricing !== undefined)
  expect(await own()).toMatchObject({ price: '0.002', pricing: { per_second: 0.001, max: 0.0015 } })
  await page.reload()
  await page.getByLabel('At most, a call').waitFor()
  expect(await page.getByLabel('At most, a call').inputValue()).toBe('0.0015')
  await page.getByLabel('A second', { exact: true }).fill('')
  await page.getByLabel('At most, a call').fill('')
  await page.getByRole('button', { name: 'Save' }).click()
  await until(async () => (await own()).pricing === undefined)
  await close()
})

test('saving an agent that is sold on channels only leaves it so', async () => {
  const pricing = { per_second: 1_000n, max: 1_500n }
  const agent = { name: 'Only', description: 'Says it again.', pricing, model: 'builtin/echo' }
  const { id } = await seller.node.registerAgent(agent, { persist: false })
  const { page, close } = await visit(browser, seller.url)
  await open(page, seller, `/agents/${id}`)
  await page.getByLabel('Description').fill('Says it once more.')
  await page.getByRole('button', { name: 'Save' }).click()
  type Own = { id: string; description: string; on_channels_only?: true }
  const own = async () => (await ask<Own[]>(seller.url, '/agents/own')).find((one) => one.id === id)!
  await until(async () => (await own()).description === 'Says it once more.')
  expect(await own()).toMatchObject({ on_channels_only: true })
  await close()
})

test('a buyer sees what a metered agent charges for, and that the price is the most', async () => {
  const pricing = { per_1k_output_tokens: 2_000n, max: 20_000n }
  const agent = { name: 'By use', description: 'Says it again.', pricing, run: async (task: string) => task }
  const { run, ...definition } = agent
  const { id } = await seller.node.registerAgent(definition, { persist: false, run })
  await until(() => ask(buyer.url, `/agents/${id}`).catch(() => undefined))
  const { page, close } = await visit(browser, buyer.url)
  await open(page, buyer, '/market')
  await page.getByRole('link', { name: 'By use, up to 0.02 USDC' }).waitFor()
  await open(page, buyer, `/market/${id}`)
  await page.getByText('0.002 USDC for 1000 tokens written').waitFor()
  await page.getByText('needed: it is sold on them only').waitFor()
  await page.getByRole('button', { name: 'Buy for up to 0.02 USDC' }).waitFor()
  expect(await faultsOf(page)).toEqual([])
  await close()
})

test('who buys may say how the call is paid, and the order says so', async () => {
  const { page, close } = await visit(browser, buyer.url)
  await open(page, buyer, `/market/${agentId}`)
  await page.getByLabel('Task').fill('paid by itself')
  await page.getByLabel('How it is paid').selectOption('never')
  expect(await faultsOf(page)).toEqual([])
  await page.getByRole('button', { name: 'Buy for 0.001 USDC' }).click()
  await page.waitForURL(/orders/)
  const placed = new URL(page.url()).pathname.split('/').at(-1)
  type Paid = { status: string; payment?: { channel_id?: string } }
  const paid = await until(async () => {
    const found = await ask<Paid>(buyer.url, `/orders/${placed}`)
    return found.status === 'completed' ? found : undefined
  })
  expect(paid.payment?.channel_id).toBeUndefined()
  await close()
})

test('an order of a metered agent says what was used, and whether its output was cut', async () => {
  const { page, close } = await visit(browser, buyer.url)
  const found = await ask<{ payment: object }>(buyer.url, `/orders/${order}`)
  const units = { input_tokens: 1200, output_tokens: 34, milliseconds: 1500 }
  const json = { ...found, payment: { ...found.payment, units, cut: true } }
  await page.route(`**/api/orders/${order}`, (route) => route.fulfill({ json }))
  const paid = await ask<{ order_id?: string }[]>(buyer.url, '/payments')
  const payment = { ...paid.find(({ order_id }) => order_id === order), units, cut: true }
  await page.route('**/api/payments/*', (route) => route.fulfill({ json: payment }))
  await open(page, buyer, `/orders/${order}`)
  await page.getByText('1,200 tokens read, 34 written, 1.5 s').first().waitFor()
  await page.getByText('ends with what was paid for').first().waitFor()
  await close()
})

const inTwoHours = () => new Date(Date.now() + 2 * 3_600_000).toISOString()
const states: [string, Partial<ChannelRecord>, RegExp][] = [
  [
    'withdrawing',
    { withdrawal: { amount: '0.05', amount_atomic: '50000', started_at: inTwoHours(), ends_at: inTwoHours() } },
    /0.05 USDC can end in (2 h|1 h 5\d min)\. The seller can claim what it has charged until then\./,
  ],
  ['stopped', { stopped: 'the seller gave the number 3 to two charges', free: '0' }, /the seller gave the number 3/],
  [
    'opening',
    {
      ...{ balance: '0', balance_atomic: '0' },
      deposit: { amount: '0.1', amount_atomic: '100000', valid_before: inTwoHours() },
    },
    /0.10 USDC; the chain does not show it yet/,
  ],
]

test.each(states)('a channel that is %s says so, with what it means', async (state, changes, says) => {
  const { page, close } = await visit(browser, buyer.url)
  const json = { ...channel, state, ...changes }
  await page.route(`**/api/channels/${channel.id}`, (route) => route.fulfill({ json }))
  await open(page, buyer, `/channels/${channel.id}`)
  await page.getByText(state, { exact: true }).waitFor()
  await page.getByText(says).first().waitFor()
  expect(await faultsOf(page)).toEqual([])
  await close()
})

test('a channel is closed by hand, after a question; what it then offers is true', async () => {
  const { page, close } = await visit(browser, buyer.url)
  await open(page, buyer, `/channels/${channel.id}`)
  await page.getByRole('button', { name: 'Close', exact: true }).click()
  const question = page.getByRole('dialog', { name: 'Close this channel?' })
  await question.getByText('costs you nothing').waitFor()
  await question.getByRole('button', { name: 'Keep' }).click()
  await page.getByRole('button', { name: 'Close', exact: true }).click()
  await question.getByRole('button', { name: 'Close', exact: true }).click()
  // The seller gives it back at once, without gas of the buyer.
  await page.getByText('closed', { exact: true }).waitFor({ timeout: 60_000 })
  expect(await page.getByRole('button', { name: /^(Close|Withdraw)$/ }).count()).toBe(0)
  expect(await faultsOf(page)).toEqual([])
  await close()
})

test('a channel is opened from the page of an agent, and an agent of this node offers none', async () => {
  const { page, close } = await visit(browser, buyer.url)
  await open(page, buyer, `/market/${agentId}`)
  await page.getByRole('button', { name: 'Open a payment channel' }).click()
  const question = page.getByRole('dialog', { name: 'Open a payment channel?' })
  await question.getByRole('button', { name: 'Open a payment channel' }).click()
  await page.getByRole('heading', { name: 'Channel to a seller' }).waitFor()
  await page.getByText('open', { exact: true }).waitFor({ timeout: 60_000 })
  expect(await faultsOf(page)).toEqual([])
  await close()
  const sold = await visit(browser, seller.url)
  await open(sold.page, seller, `/market/${agentId}`)
  await sold.page.getByText('taken: many calls by one deposit').waitFor()
  expect(await sold.page.getByRole('button', { name: 'Open a payment channel' }).count()).toBe(0)
  await sold.close()
})

test.each([
  [{ width: 1280, height: 860 }, 'light'],
  [{ width: 1280, height: 860 }, 'dark'],
  [{ width: 380, height: 740 }, 'light'],
  [{ width: 380, height: 740 }, 'dark'],
] as const)('the pages fit a screen of %o, %s', async (viewport, colorScheme) => {
  const { page, close } = await visit(browser, buyer.url, { viewport, colorScheme })
  for (const path of ['/channels', `/channels/${channel.id}`, '/wallet']) {
    await open(page, buyer, path)
    await page.getByText('harged').first().waitFor()
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0)
  }
  await close()
})
