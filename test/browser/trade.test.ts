/** Buying and selling in the dashboard, on a real chain, between two nodes. */
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Devnet } from '../../devnet/devnet.ts'
import type { Listing } from '../../src/schema/listing.ts'
import type { WorkflowRecord } from '../../src/schema/workflow.ts'
import { launchBrowser, visit } from '../support/browser.ts'
import { testDir } from '../support/loopback-node.ts'
import { begun, gone, hasEnded, slowProgram } from '../support/slow-agent.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { startTradingPair, type TradingPair } from '../support/trading-pair.ts'
import { until } from '../support/until.ts'

const MARKUP = '<img src="x" onerror="document.title=\'owned\'"> <script>document.title = "owned"</script>'

let browser: Browser
let pair: TradingPair
let devnet: Devnet
let seller: TestNode
let buyer: TestNode
let home: string
let listed: Record<string, Listing>

beforeAll(async () => {
  const sold = (dir: string) => [
    { name: 'Echo', description: `Says it again. ${MARKUP}`, price: 10_000n, model: 'builtin/echo' },
    { name: 'Slow', description: 'Takes its time.', price: 20_000n, command: slowProgram(dir, 60_000) },
  ]
  ;[browser, pair] = await Promise.all([launchBrowser(), startTradingPair(sold)])
  ;({ devnet, home, seller, buyer, listed } = pair)
})
afterAll(async () => {
  await browser?.close()
  await pair?.stop()
})

const open = (page: Page, node: TestNode, path = '') => page.goto(`${node.url}/dashboard${path}`)

test('a paid agent is found and bought, its result is shown as text, and its payment is on the chain', async () => {
  const { page, close } = await visit(browser, buyer.url)
  await open(page, buyer, '/market')
  await page.getByLabel('Task or name').fill('echo')
  await page.getByRole('link', { name: /Echo/ }).click()
  await page.getByText(`Says it again. ${MARKUP}`).waitFor()
  await page.getByLabel('Task').fill(MARKUP)
  await page.getByRole('button', { name: 'Buy for 0.01 USDC' }).click()
  // T10: what a seller answers is data.
  await page.getByRole('region', { name: 'Result of the agent' }).getByText(MARKUP).waitFor()
  expect(await page.locator('main img, main script').count()).toBe(0)
  expect(await page.title()).toBe('Order · Stoa')

  await page.getByText('the chain shows the transfer').waitFor()
  const shown = await page
    .getByTitle(/^0x[0-9a-f]{64}/)
    .first()
    .getAttribute('title')
  const hash = /^0x[0-9a-f]{64}/.exec(shown!)![0] as `0x${string}`
  const receipt = await devnet.chain.client.getTransactionReceipt({ hash })
  expect(receipt.status).toBe('success')
  await page.getByText('signed by the paid account').waitFor()
  await page.getByText('Exchange, frame by frame').click()
  const frames = page.getByRole('list', { name: 'Frames, in their order' })
  const types = ['x402.request', 'x402.payment_required', 'x402.paid_request', 'x402.response', 'settlement']
  expect(await frames.locator('.step-head code').allTextContents()).toEqual(types)

  // And the seller sees what it earned.
  await open(page, buyer, '/payments')
  await page.getByRole('list', { name: 'Payments, newest first' }).getByText('−0.01 USDC').waitFor()
  await close()
  const other = await visit(browser, seller.url)
  await open(other.page, seller)
  await other.page.locator('.figure', { hasText: 'Earned today' }).getByText('0.01', { exact: true }).waitFor()
  await other.close()
})

test('a purchase above the limit waits, is approved, and settles', async () => {
  const { page, close } = await visit(browser, buyer.url)
  await open(page, buyer, '/settings')
  await page.getByLabel('Ask me from, USDC').fill('0.005')
  await page.getByRole('button', { name: 'Save the budget' }).click()
  await page.getByText('Saved. The new limits apply now.').waitFor()
  await open(page, buyer, `/market/${listed.Echo!.id}`)
  await page.getByLabel('Task').fill('may I?')
  await page.getByText('will wait for your approval').waitFor()
  await page.getByRole('button', { name: 'Buy for 0.01 USDC' }).click()
  await page.getByRole('button', { name: 'Approve and pay' }).waitFor()
  const order = page.url()

  // It is the first thing that the overview says.
  await open(page, buyer)
  await page.getByText('A purchase waits for your approval').waitFor()
  await page.getByRole('link', { name: 'Decide' }).click()
  await page.getByRole('button', { name: 'Approve and pay' }).click()
  await page.getByText('No purchase waits for approval.').waitFor()
  await page.goto(order)
  await page.getByRole('region', { name: 'Result of the agent' }).getByText('may I?').waitFor()
  await page.getByText('the chain shows the transfer').waitFor()

  await open(page, buyer, '/settings')
  await page.getByLabel('Ask me from, USDC').fill('')
  await page.getByRole('button', { name: 'Save the budget' }).click()
  await page.getByText('Saved. The new limits apply now.').waitFor()
  await close()
})

test('an added agent is found by another node, changed, tried, and taken off the market', async () => {
  const { page, close } = await visit(browser, seller.url)
  const market = await visit(browser, buyer.url)
  await open(market.page, buyer, '/market')
  await market.page.getByRole('link', { name: /Echo/ }).waitFor()
  await open(page, seller, '/agents')
  await page.getByRole('link', { name: 'Add an agent' }).click()
  await page.getByLabel('Name', { exact: true }).fill('Counter')
  await page.getByLabel('Description').fill('Counts the words of a text.')
  await page.getByLabel('Price, USDC').fill('0.005')
  await page.getByLabel('Runs on').fill('builtin/word-count')
  await page.getByLabel('Tags').fill('text, numbers')
  await page.getByRole('button', { name: 'Put it on the market' }).click()
  await page.getByRole('heading', { name: 'Counter' }).waitFor()
  // The other node's page was open all the time, and shows it by itself.
  await market.page.getByRole('link', { name: /Counter.*0\.005 USDC/s }).waitFor()

  await page.getByLabel('Task').fill('three small words')
  await page.getByRole('button', { name: 'Run' }).click()
  await page.getByRole('region', { name: 'Result of the test run' }).getByText('"words": 3').waitFor()
  await page.getByLabel('Price, USDC').fill('0.0075')
  await page.getByRole('button', { name: 'Save' }).click()
  await market.page.getByRole('link', { name: /Counter.*0\.0075 USDC/s }).waitFor()
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByText('paused', { exact: true }).waitFor()
  await market.page.getByRole('link', { name: /Counter/ }).waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('heading', { name: 'My agents' }).waitFor()
  await page.getByRole('link', { name: 'Counter' }).waitFor({ state: 'detached' })
  await Promise.all([close(), market.close()])
})

test('a workflow is built from agents, shows its cost, is drawn while it runs, and its sellers stop when it is canceled', async () => {
  const { page, close } = await visit(browser, buyer.url)
  await open(page, buyer, '/workflows/new')
  await page.getByLabel('Input').fill('stop me')
  await page.getByRole('button', { name: /Add Echo/ }).click()
  await page.getByRole('button', { name: /Add Slow/ }).click()
  await page.getByRole('button', { name: 'Show the cost' }).click()
  await page.getByRole('button', { name: 'Run for 0.03 USDC' }).click()
  await page.getByRole('img', { name: 'echo: completed, slow: running' }).waitFor()
  const program = await begun(home, 'stop me')
  await page.getByRole('button', { name: 'Cancel the workflow' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the workflow' }).click()
  await page.getByRole('img', { name: 'echo: completed, slow: canceled' }).waitFor()
  await gone(program)
  expect(hasEnded(home, 'stop me')).toBe(false)
  const id = new URL(page.url()).pathname.split('/').at(-1)
  const record = (await (await fetch(`${buyer.url}/workflows/${id}`)).json()) as WorkflowRecord
  expect(record).toMatchObject({ status: 'canceled', estimate: '0.03', budget: '0.03' })
  await close()
})

test('T20 failing settlements raise an alert, and the seller retries by hand', async () => {
  const unsettling = { ...devnet, facilitatorUrl: 'http://127.0.0.1:9' }
  const poor = await startTestNode({ devnet: unsettling, walletKey: devnet.wallets.seller.privateKey })
  const { id } = await poor.node.registerAgent({ name: 'Owed', description: 'd', price: 7_000n, model: 'builtin/echo' })
  const customer = await startTestNode({
    devnet,
    walletKey: devnet.wallets.buyer.privateKey,
    bootstrap: [poor.node.addresses()[0]!],
  })
  await until(() => customer.node.listings().length === 1, { timeoutMs: 60_000 })
  await customer.node.execute({ agentId: id, input: 'work', signal: AbortSignal.timeout(60_000) })
  const { page, close } = await visit(browser, poor.url)
  await open(page, poor)
  await page.getByText('A payment waits because settlement fails').waitFor()
  await page.getByRole('link', { name: 'See the outbox' }).click()
  const owed = page.getByRole('list', { name: 'Owed, by agent' })
  await owed.getByText('0.007 USDC for Owed').waitFor()
  await owed.getByText(/the facilitator cannot be reached/).waitFor()
  await owed.getByRole('button', { name: 'Try to settle now' }).click()
  await page.getByText('The node tries to settle again.').waitFor()
  // D42: the alarm can be dismissed; what is owed stays in the books.
  await page.getByRole('button', { name: /^Dismiss: A payment waits/ }).click()
  await page.getByText('Dismissed. The alarm returns only when something new happens.').waitFor()
  await page.getByRole('button', { name: /^Dismiss: A payment waits/ }).waitFor({ state: 'detached' })
  await owed.getByText('0.007 USDC for Owed').waitFor()
  await close()
  await Promise.all([customer.stop(), poor.stop()])
})

test('a page without its node says so, keeps its data, and continues when the node is back', async () => {
  const dataDir = await testDir()
  let node = await startTestNode({ dataDir })
  const port = Number(new URL(node.url).port)
  const { page, close } = await visit(browser, node.url)
  await open(page, node, '/agents')
  await page.getByText('You sell no agent yet').waitFor()
  await node.stop()
  await page.getByText('Connection lost. Retrying.').waitFor()
  await page.getByText('You sell no agent yet').waitFor()
  node = await startTestNode({ dataDir, api: { port } })
  await page.getByText('Connection lost. Retrying.').waitFor({ state: 'detached' })
  await node.node.registerAgent({ name: 'Late', description: 'd', price: 0n, model: 'builtin/echo' })
  await page.getByRole('link', { name: 'Late' }).waitFor()
  // One that nobody has called yet is no less on sale.
  await page.getByRole('link', { name: 'Overview' }).click()
  await page.getByRole('link', { name: 'Late' }).waitFor()
  await close()
  await node.stop()
})
