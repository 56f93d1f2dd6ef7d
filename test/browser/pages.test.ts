/** Every page of a node that has a lot to show: whether everybody can use it, and whether it stays quick. */
import { rm } from 'node:fs/promises'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launchBrowser, visit } from '../support/browser.ts'
import { fillDataDir } from '../support/large-node.ts'
import { testDir } from '../support/loopback-node.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const LISTINGS = 10_000
const EXECUTIONS = 100_000
/** On two busy cores. What this is to catch takes many times as long: ten thousand rows in the document. */
const SHOWN_MS = 5_000
const STALL_MS = 1_000
const VISITS = 3
const ROWS_MAX = 80
/** Less than the goal of 150 kB, so that React’s development build would not pass. */
const LOAD_BYTES_MAX = 120_000

let browser: Browser
let node: TestNode
let dataDir: string
beforeAll(async () => {
  dataDir = await testDir()
  await fillDataDir(dataDir, { listings: LISTINGS, executions: EXECUTIONS })
  ;[browser, node] = await Promise.all([launchBrowser(), startTestNode({ dataDir })])
  const { id } = await node.node.registerAgent({ name: 'Own', description: 'd', price: 0n, model: 'builtin/echo' })
  await node.node.execute({ agentId: id, input: 'hello', signal: AbortSignal.timeout(60_000) })
})
afterAll(async () => {
  await browser?.close()
  await node?.stop()
  await rm(dataDir, { recursive: true, force: true })
})

async function pages(): Promise<Record<string, string>> {
  const get = async (path: string) => (await fetch(node.url + path)).json() as Promise<{ id: string }[]>
  const [own, orders, executions] = await Promise.all([get('/agents/own'), get('/orders'), get('/executions')])
  const agent = own[0]!.id
  const body = JSON.stringify({ agent_ids: [agent, agent], input: 'x', name: 'Chain' })
  const headers = { 'content-type': 'application/json' }
  const made = await fetch(`${node.url}/workflows`, { method: 'POST', headers, body })
  const workflow = (await made.json()) as { id: string }
  return {
    '': 'Executions',
    '/market': 'does one thing well',
    [`/market/${agent}`]: 'Paid to',
    '/agents': 'on sale',
    '/agents/new': 'Put it on the market',
    [`/agents/${agent}`]: 'Latest calls',
    '/activity': 'Sold',
    [`/orders/${orders[0]!.id}`]: 'Result',
    [`/executions/${executions[0]!.id}`]: 'Task',
    '/approvals': 'No purchase waits',
    '/payments': 'All payments',
    '/workflows': 'Chain',
    '/workflows/new': 'First agent',
    [`/workflows/${workflow.id}`]: 'completed',
    '/sessions': 'Own',
    [`/sessions/${agent}/local`]: 'hello',
    '/doors': 'Where others buy',
    '/network': 'Peers',
    '/machines': 'answers this page',
    '/wallet': 'Address',
    '/settings': 'buyer.max_price',
    '/nowhere': 'No such page',
  }
}

const standards = ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa']

/** Faults that keep somebody out, as axe grades them. */
async function faultsOf(page: Page, choose: (axe: AxeBuilder) => AxeBuilder): Promise<string[]> {
  const { violations } = await choose(new AxeBuilder({ page })).analyze()
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).slice(0, 3)}`)
}

test('axe finds no serious problem on any page, in both themes', async () => {
  const { page, close } = await visit(browser, node.url, { reducedMotion: 'reduce' })
  const found: Record<string, string[]> = {}
  for (const [path, text] of Object.entries(await pages())) {
    await page.emulateMedia({ colorScheme: 'light' })
    await page.goto(`${node.url}/dashboard${path}`)
    await page.locator('main').getByText(text).first().waitFor()
    const faults = await faultsOf(page, (axe) => axe.withTags(standards))
    // The themes differ in their colors alone.
    await page.emulateMedia({ colorScheme: 'dark' })
    faults.push(...(await faultsOf(page, (axe) => axe.withRules(['color-contrast']))))
    if (faults.length > 0) found[path] = faults
  }
  expect(found).toEqual({})
  await close()
  // More than forty looks of axe: on a busy machine they take minutes.
}, 300_000)

test('no page is wider than a narrow screen, and everything is reachable by keyboard', async () => {
  const { page, close } = await visit(browser, node.url, { viewport: { width: 380, height: 740 } })
  for (const [path, text] of Object.entries(await pages())) {
    await page.goto(`${node.url}/dashboard${path}`)
    await page.locator('main').getByText(text).first().waitFor()
    expect([path, await page.evaluate('document.documentElement.scrollWidth - innerWidth')]).toEqual([path, 0])
  }
  await page.goto(`${node.url}/dashboard`)
  await page.getByRole('button', { name: 'Menu' }).press('Enter')
  await page.getByRole('navigation').getByRole('link', { name: 'Network' }).press('Enter')
  await page.getByRole('heading', { name: 'Network' }).waitFor()
  expect(await page.evaluate('document.activeElement.id')).toBe('main')
  await close()
})

/** The longest time in which the page answered to nothing. */
async function watchStalls(page: Page): Promise<() => Promise<number>> {
  await page.addInitScript(`
    window.longest = 0
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration)
    }).observe({ type: 'longtask', buffered: true })`)
  return () => page.evaluate('window.longest')
}

test.each([
  ['/market', 'Agents on the market'],
  ['/activity', 'Activity, newest first'],
])('%s of a large node is shown at once and scrolls without a stall', async (path, label) => {
  await expectQuick(async () => {
    const { page, close } = await visit(browser, node.url)
    const longest = await watchStalls(page)
    const started = performance.now()
    await page.goto(`${node.url}/dashboard${path}`)
    const rows = page.getByRole('list', { name: label }).getByRole('listitem')
    await rows.nth(10).waitFor()
    const shownMs = performance.now() - started
    const last = async () => Number(await rows.last().getAttribute('aria-posinset'))
    // Down through several parts of the list: each is fetched as it is reached.
    for (let part = 1; part <= 6; part++) {
      await until(async () => {
        await page.mouse.wheel(0, 4_000)
        return (await last()) > part * 60
      })
    }
    expect(await rows.count()).toBeLessThan(ROWS_MAX)
    const stallMs = await longest()
    await close()
    return { shownMs, stallMs }
  })
})

/** Other processes slow some visits: the best of several counts. */
async function expectQuick(measure: () => Promise<{ shownMs: number; stallMs: number }>): Promise<void> {
  const seen: { shownMs: number; stallMs: number }[] = []
  const isQuick = () => seen.some(({ shownMs, stallMs }) => shownMs < SHOWN_MS && stallMs < STALL_MS)
  while (seen.length < VISITS && !isQuick()) seen.push(await measure())
  expect(isQuick(), JSON.stringify(seen)).toBe(true)
}

test('a browser whose language is no language tag, as under LANG=C, shows the chart', async () => {
  const { page, close } = await visit(browser, node.url)
  await page.addInitScript(() => {
    Object.defineProperty(Navigator.prototype, 'language', { get: () => 'en-US@posix', configurable: true })
  })
  await page.goto(`${node.url}/dashboard`)
  await page.locator('.chart canvas').waitFor()
  await close()
})

test('the overview of a large node is shown at once, and its response is small', async () => {
  await expectQuick(async () => {
    const { page, bytes, close } = await visit(browser, node.url)
    const longest = await watchStalls(page)
    const started = performance.now()
    await page.goto(`${node.url}/dashboard`)
    await page.getByText(/of this node ·/).waitFor()
    await page.locator('.chart canvas').waitFor()
    const shownMs = performance.now() - started
    expect(await bytes()).toBeLessThan(LOAD_BYTES_MAX)
    const stallMs = await longest()
    await close()
    return { shownMs, stallMs }
  })
})
