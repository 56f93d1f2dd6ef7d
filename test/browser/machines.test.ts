/** The page of a seller of many processes, as a node among them would answer. */
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launchBrowser, visit } from '../support/browser.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'

let browser: Browser
let node: TestNode
beforeAll(async () => {
  ;[browser, node] = await Promise.all([launchBrowser(), startTestNode({})])
})
afterAll(async () => {
  await browser?.close()
  await node?.stop()
})

const at = '2026-11-23T10:00:00.000Z'
const latency = { p50_ms: 0.8, p99_ms: 6.4, count: 100 }
const process = (no: number, fields: object) => ({
  ...{ id: `id-${no}`, place: `shop-${no}.example.internal, process ${4000 + no}`, answering: no === 1 },
  ...{ state: 'selling', version: '1.10.0', started_at: at, seen_at: at, lease_seconds: 18, agents: ['a', 'b'] },
  ...{ addresses: [`/ip4/203.0.113.${no}/tcp/4001/p2p/12D3KooWJWEKvSFbben74C7H4YtKjhPMTDxd7gP7zxWSUEeF27st`] },
  ...{ running: no, clock_ahead_ms: 3, lag_ms: 240, read: latency, change: latency, ...fields },
})
const worker = (name: string, fields: object) => ({
  ...{
    id: name,
    name,
    agents: ['Painter'],
    running: 1,
    runs_max: 4,
    created_at: at,
    expires_at: at,
    seen_at: at,
    ...fields,
  },
})
const fleet = {
  processes: [
    process(1, {}),
    process(2, { version: '1.9.0', state: 'draining', differs: { agents: ['Echo'], budget: true } }),
    process(3, { clock_ahead_ms: 3_600_000, state: 'silent' }),
  ],
  ended: [{ id: 'id-0', place: 'shop-4, process 1', ended_at: at, how: 'lost' }],
  missing: 1,
  roles: [{ name: 'housekeeping', process: 'id-2' }],
  database: { engine: 'postgres', server: 'db.example:5432/stoa' },
  workers: [worker('gpu-1', { state: 'connected' }), worker('gpu-2', { state: 'away' })],
}

async function openMachines(page: Page): Promise<void> {
  await page.route('**/api/fleet', (route) => route.fulfill({ json: fleet }))
  await page.goto(`${node.url}/dashboard/machines`)
  await page.getByRole('heading', { name: 'Machines' }).waitFor()
}

test('each process and worker is shown with its state, and what is wrong is told in words', async () => {
  const { page, close } = await visit(browser, node.url)
  await openMachines(page)
  const row = (name: RegExp) => page.getByRole('row', { name })
  await page.getByRole('alert').getByText('A process was lost').waitFor()
  for (const text of ['selling', '1.10.0', 'answers this page', '/ip4/203.0.113.1/tcp/4001'])
    await row(/shop-1/)
      .getByText(text)
      .waitFor()
  for (const text of ['draining', '1.9.0, behind', 'housekeeping', 'other settings for Echo and another budget'])
    await row(/shop-2/)
      .getByText(text)
      .waitFor()
  for (const text of ['silent', 'clock 1 h ahead'])
    await row(/shop-3/)
      .getByText(text)
      .waitFor()
  await row(/gpu-1/).getByText('1 of 4').waitFor()
  await row(/gpu-2/).getByText('away').waitFor()
  await page.getByText('PostgreSQL at db.example:5432/stoa').waitFor()
  await page.getByText('< 1 ms, 99 of 100 within 6 ms').first().waitFor()
  await page.getByText('shop-4, process 1').waitFor()
  await close()
})

test.each([
  [{ width: 1280, height: 860 }, 'light'],
  [{ width: 1280, height: 860 }, 'dark'],
  [{ width: 380, height: 740 }, 'light'],
  [{ width: 380, height: 740 }, 'dark'],
] as const)('the page fits a screen of %o, %s', async (viewport, colorScheme) => {
  const { page, close } = await visit(browser, node.url, { viewport, colorScheme })
  await openMachines(page)
  expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0)
  // Nothing is left out where there is little room.
  for (const text of ['/ip4/203.0.113.2/tcp/4001', 'Painter', '1.9.0, behind', 'housekeeping']) {
    const found = page.getByText(text).first()
    await found.waitFor()
    const box = (await found.boundingBox())!
    expect(box.x + box.width).toBeLessThanOrEqual(viewport.width)
  }
  if (viewport.width < 700) expect(await columnNames(page)).toEqual(COLUMNS)
  await close()
})

const COLUMNS = ['State', 'Runs', 'Version', 'Agents', 'Heard of', 'Address']
/** What the cells of the first row say of themselves. */
const columnNames = (page: Page) =>
  page.evaluate(`[...document.querySelectorAll('tbody tr:first-child')[0].querySelectorAll('td')].map((cell) =>
    getComputedStyle(cell, '::before').content.replaceAll('"', ''))`)
