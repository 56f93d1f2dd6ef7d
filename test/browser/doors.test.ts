/** The page of the doors: of a node that has none open, and of one that sells to strangers. */
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launchBrowser, visit } from '../support/browser.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'

let browser: Browser
let closed: TestNode
let open: TestNode
beforeAll(async () => {
  ;[browser, closed, open] = await Promise.all([
    launchBrowser(),
    startTestNode(),
    startTestNode({ public: { port: 0 }, openai: { enabled: true } }),
  ])
  for (const name of ['Translator', 'Summarizer']) {
    const definition = { name, description: 'd', price: 20_000n, model: 'builtin/echo' }
    await open.node.registerAgent(definition, { persist: false })
  }
})
afterAll(async () => {
  await browser?.close()
  await Promise.all([closed?.stop(), open?.stop()])
})

async function openDoors(page: Page, node: TestNode): Promise<void> {
  await page.goto(`${node.url}/dashboard/doors`)
  await page.getByRole('heading', { name: 'Doors' }).waitFor()
  await page.getByRole('heading', { name: 'Where your programs buy' }).waitFor()
}

const row = (page: Page, name: RegExp) => page.getByRole('row', { name })

test('a node without a public listener shows what is closed, and how to open it', async () => {
  const { page, close } = await visit(browser, closed.url)
  await openDoors(page, closed)
  await row(page, /^Peer to peer/)
    .getByText('open')
    .waitFor()
  for (const name of [/^x402 over HTTP/, /^MCP/, /^A2A/]) {
    await row(page, name).getByText('public.port is not set. To open it, set public.port and public.url').waitFor()
  }
  await page.getByText('No agent is for sale').waitFor()
  await page.getByText('Set openai_door: true in config.yaml').waitFor()
  expect(await page.getByRole('button', { name: 'Test now' }).count()).toBe(0)
  await close()
})

test('each agent has an address for each kind of client, with what the test found there', async () => {
  const { page, close } = await visit(browser, open.url)
  await openDoors(page, open)
  await page.getByLabel('Agent', { exact: true }).selectOption('Summarizer')
  const { id } = open.node.listings().find(({ name }) => name === 'Summarizer')!
  const shown = (name: string) => page.getByRole('region', { name: `For ${name}` })
  await shown('Address').getByText(`${open.publicUrl}/x402/${id}`).waitFor()
  // The page tests by itself.
  await page.getByText(/^to check · Tested .* from this node: answers 402 with the price of the listing/).waitFor()
  const texts: Record<string, string> = {
    curl: `'${open.publicUrl}/x402/${id}' -H`,
    '@x402/fetch': "register('eip155:84532'",
    MCP: `"url": "${open.publicUrl}/mcp"`,
    A2A: `${open.publicUrl}/a2a/${id}/.well-known/agent-card.json`,
    Stoa: `stoa agent execute --agent-id ${id}`,
  }
  for (const [name, text] of Object.entries(texts)) {
    // By keyboard alone.
    await page.getByRole('button', { name, exact: true }).press('Enter')
    await shown(name).getByText(text).waitFor()
  }
  const base = `${open.url}/v1`
  await page.getByRole('button', { name: base }).waitFor()
  await close()
})

test('tests of a door that found the same are one line, with their addresses behind it', async () => {
  const { page, close } = await visit(browser, open.url)
  await openDoors(page, open)
  const line = page.getByRole('listitem').filter({ hasText: '2 agents over x402: answers 402' })
  await line.waitFor()
  expect(await page.locator('.door-tests > li').count()).toBe(4)
  const { id } = open.node.listings().find(({ name }) => name === 'Summarizer')!
  const address = line.getByText(`${open.publicUrl}/x402/${id}`)
  expect(await address.isVisible()).toBe(false)
  await line.getByText('2 addresses').press('Enter')
  await address.waitFor()
  await line.getByText('Summarizer', { exact: true }).waitFor()
  await close()
})

test('an agent whose test found something else has a line of its own', async () => {
  const { page, close } = await visit(browser, open.url)
  const ids = open.node.listings().map(({ id }) => id)
  const test = (id: string | undefined, state: string, text: string) => {
    return { door: 'http', from: 'here', agent_id: id, url: `${open.publicUrl}/x402/${id}`, state, text }
  }
  const tests = [test(ids[0], 'ok', 'answers'), test(ids[1], 'fail', 'is broken'), test('gone', 'ok', 'answers')]
  await page.route('**/api/doors', async (route) => {
    const response = await route.fetch()
    const json = { ...(await response.json()), tests: { at: new Date().toISOString(), tests } }
    await route.fulfill({ response, json })
  })
  await openDoors(page, open)
  const lines = page.locator('.door-tests > li')
  await page.getByText('2 agents over x402: answers.').waitFor()
  expect(await lines.count()).toBe(2)
  await lines.getByText(/(Translator|Summarizer) over x402: is broken\./).waitFor()
  await page.getByText('2 addresses').click()
  await page.getByText('An agent', { exact: true }).waitFor()
  await close()
})

test('a test that fails is told with what to do, and a refused test with its reason', async () => {
  const { page, close } = await visit(browser, open.url)
  await page.route('**/api/doors/test', (route) =>
    route.fulfill({
      status: 403,
      json: { status: 403, code: 'SCOPE_TOO_LOW', title: 'Not allowed', detail: 'needs admin' },
    }),
  )
  await page.route('**/api/doors', async (route) => {
    const response = await route.fetch()
    const url = `${open.publicUrl}/x402/x`
    const broken = {
      door: 'http',
      from: 'here',
      url,
      state: 'fail',
      text: 'answers 301 and not 402',
      fix: 'mend the proxy',
    }
    await route.fulfill({
      response,
      json: { ...(await response.json()), tests: { at: '2026-11-20T10:00:00.000Z', tests: [broken] } },
    })
  })
  await openDoors(page, open)
  await page.getByRole('alert').getByText('Needs admin').waitFor()
  await page.getByText('x402: answers 301 and not 402').waitFor()
  await page.getByText('What to do: mend the proxy.').waitFor()
  await close()
})

test.each([
  [{ width: 1280, height: 1600 }, 'light'],
  [{ width: 1280, height: 1600 }, 'dark'],
  [{ width: 380, height: 740 }, 'light'],
  [{ width: 380, height: 740 }, 'dark'],
] as const)('the page fits a screen of %o, %s', async (viewport, colorScheme) => {
  for (const node of [open, closed]) {
    const { page, close } = await visit(browser, node.url, { viewport, colorScheme })
    await openDoors(page, node)
    if (node === open) {
      await page.getByText('2 agents over x402').waitFor()
      // The addresses of two doors, opened, must fit too.
      for (const one of await page.getByText('2 addresses').all()) await one.click()
    }
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0)
    await close()
  }
})

test('a person who opens the address of an agent can read the page, in both themes', async () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    const { page, close } = await visit(browser, open.publicUrl!, { colorScheme })
    await page.goto(`${open.publicUrl}/x402/any`)
    await page.getByRole('heading', { name: 'This address sells the work of an AI agent' }).waitFor()
    const { violations } = await new AxeBuilder({ page }).analyze()
    expect(violations.map(({ id }) => id).filter((id) => id === 'color-contrast')).toEqual([])
    await close()
  }
})
