/** What a designer looked at: the market's table, adding an agent, searching activity, charts, and notices. */
import { rm } from 'node:fs/promises'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { RUN_CANCELED } from '../../src/schema/limits.ts'
import { launchBrowser, visit } from '../support/browser.ts'
import { type FakeLlm, startFakeLlm } from '../support/fake-llm.ts'
import { fillDataDir } from '../support/large-node.ts'
import { testDir } from '../support/loopback-node.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

let browser: Browser
let node: TestNode
let dataDir: string
let llm: FakeLlm
beforeAll(async () => {
  dataDir = await testDir()
  await fillDataDir(dataDir, { listings: 3, executions: 40 })
  llm = await startFakeLlm()
  const fetch = async (input: string | URL | Request, init?: RequestInit) =>
    String(input).endsWith('/models')
      ? Response.json({ data: [{ id: 'small' }, { id: 'large' }] })
      : llm.fetch(input, init)
  const buyer = { autoApproveBelowAtomic: 500n }
  ;[browser, node] = await Promise.all([launchBrowser(), startTestNode({ dataDir, buyer, ports: { fetch } })])
  const echo = { name: 'Parrot', description: 'Says it again.', price: 0n, model: 'builtin/echo' }
  const { id } = await node.node.registerAgent(echo)
  await node.node.execute({ agentId: id, input: 'a needle in the hay', signal: AbortSignal.timeout(60_000) })
})
afterAll(async () => {
  await browser?.close()
  await node?.stop()
  await llm?.[Symbol.asyncDispose]()
  await rm(dataDir, { recursive: true, force: true })
})

const dashboard = (path: string) => `${node.url}/dashboard${path}`
const rowsOf = (page: Page, label: string) => page.getByRole('list', { name: label }).getByRole('listitem')

test('an agent can be run from the market page, and its order is shown', async () => {
  const { page, close } = await visit(browser, node.url)
  await page.goto(dashboard('/market'))
  await page.getByRole('button', { name: 'Run Parrot' }).click()
  const dialog = page.getByRole('dialog', { name: 'Run Parrot' })
  await dialog.getByLabel('Task').fill('from the list')
  await dialog.getByRole('button', { name: 'Run', exact: true }).click()
  await page.getByRole('region', { name: 'Result of the agent' }).getByText('from the list').waitFor()
  expect(page.url()).toContain('/orders/')
  await close()
})

test('D37 a listing of another network is marked and cannot be bought, and shows seller name and peer id', async () => {
  const { page, close } = await visit(browser, node.url)
  await page.route(/\/api\/agents(\/[^/?]+)?\?/, async (route) => {
    const response = await route.fetch()
    const json = await response.json()
    for (const one of Array.isArray(json) ? json : [json]) {
      if (one.local) continue
      Object.assign(one, { buyable: false, network: 'eip155:8453', seller_name: 'Acme' })
    }
    await route.fulfill({ response, json })
  })
  await page.goto(dashboard('/market'))
  const row = rowsOf(page, 'Agents on the market').filter({ hasText: 'Agent 2' })
  await row.getByText('on Base').waitFor()
  await row.getByText('Acme').waitFor()
  expect(await row.getByRole('button', { name: 'Buy' }).isDisabled()).toBe(true)
  await row.getByRole('link', { name: /Agent 2/ }).click()
  await page.getByText('Sold on Base, but this node pays on another network').waitFor()
  await page.getByText('Names are not unique').waitFor()
  expect(await page.getByRole('button', { name: /^Buy/ }).count()).toBe(0)
  await close()
})

test('D47 an agent is tried before it is listed, and private fields stay with its operator', async () => {
  const { page, close } = await visit(browser, node.url)
  await page.goto(dashboard('/agents/new'))
  await page.getByLabel('Name', { exact: true }).fill('Secretive')
  await page.getByLabel('Description').fill('Translates.')
  await page.getByLabel('Instructions', { exact: true }).fill('mind the orchard')
  await page.getByLabel('Temperature').fill('0.5')
  await page.getByText('choose from the models that answer: 2 at').waitFor()
  await page.getByLabel('Runs on').fill('ollama/small')
  await page.getByLabel('Task').fill('hello')
  await page.getByRole('button', { name: 'Run' }).click()
  await page.getByRole('region', { name: 'Result of the test run' }).getByText('an answer').waitFor()
  expect(llm.requests.at(-1)!.body).toMatchObject({ model: 'small', temperature: 0.5 })
  expect(JSON.stringify(llm.requests.at(-1)!.body)).toContain('mind the orchard')
  const own = async () => (await (await fetch(`${node.url}/agents/own`)).json()) as { name: string }[]
  expect((await own()).map(({ name }) => name)).not.toContain('Secretive')
  await page.getByRole('button', { name: 'Put it on the market' }).click()
  await page.getByRole('heading', { name: 'Secretive' }).waitFor()
  expect(await page.getByLabel('Instructions', { exact: true }).inputValue()).toBe('mind the orchard')
  expect(JSON.stringify(await own())).toContain('orchard')
  expect(await (await fetch(`${node.url}/agents`)).text()).not.toContain('orchard')
  await page.getByLabel('Instructions', { exact: true }).fill('')
  await page.getByRole('button', { name: 'Save' }).click()
  await until(async () => !JSON.stringify(await own()).includes('orchard'))
  expect(await own()).toContainEqual(expect.objectContaining({ name: 'Secretive', temperature: 0.5 }))
  // How its answers are shown is chosen there too, and goes back to what is usual.
  const shown = page.getByLabel('Show output')
  for (const [mode, said] of [
    ['after_settlement', expect.objectContaining({ name: 'Secretive', streaming: 'after_settlement' })],
    ['', expect.not.objectContaining({ streaming: expect.anything() })],
  ] as const) {
    await shown.selectOption(mode)
    await page.getByRole('button', { name: 'Save' }).click()
    await until(async () => said.asymmetricMatch((await own()).find(({ name }) => name === 'Secretive')))
    expect(await shown.inputValue()).toBe(mode)
  }
  await close()
})

test('a program is set up on the machine of the node, and a broken agent says why it is not on the market', async () => {
  const { page, close } = await visit(browser, node.url)
  await page.goto(dashboard('/agents/new'))
  await page.getByLabel('Program or service').check()
  await page.getByText('stoa agent config add').waitFor()
  expect(await page.getByRole('button', { name: 'Put it on the market' }).count()).toBe(0)
  await node.node.ownAgents.keep({ name: 'Broken', description: 'x', price: 1n, model: 'openai/gpt-5.4-mini' })
  await page.goto(dashboard('/agents'))
  await page.getByText('cannot run').waitFor()
  await page.getByText('OPENAI_API_KEY').waitFor()
  await page.getByRole('link', { name: 'Broken' }).click()
  await page.getByText('The agent cannot run and is not on the market').waitFor()
  await close()
})

test('activity is searched by words, failure, agent and day', async () => {
  const { page, close } = await visit(browser, node.url)
  const rows = rowsOf(page, 'Activity, newest first')
  /** Waits until only such rows are there: so many, or at least one. */
  const shown = async (wanted: RegExp, count?: number) =>
    until(
      async () => {
        const texts = await rows.allTextContents()
        const isEnough = count === undefined ? texts.length > 0 : texts.length === count
        return isEnough && texts.every((text) => wanted.test(text))
      },
      { timeoutMs: 60_000 },
    )
  await page.goto(dashboard('/activity'))
  await page.getByLabel('Search').fill('needle')
  await shown(/needle/, 2)
  await page.getByLabel('Search').fill('nothing is called so')
  await page.getByText('Nothing matches').waitFor()
  await page.getByRole('button', { name: 'Show everything' }).click()
  await rows.nth(20).waitFor()
  expect(await page.getByLabel('Search').inputValue()).toBe('')
  for (const [error, state] of [
    ['it failed', 'failed'],
    [RUN_CANCELED, 'canceled'],
  ] as const) {
    const row = rows.filter({ hasText: error }).first()
    await row.locator('.badge').getByText(state, { exact: true }).waitFor()
    await row.getByRole('link').first().click()
    await page
      .locator('.state-title')
      .getByText(state === 'failed' ? 'The execution failed' : 'canceled')
      .waitFor()
    await page.goBack()
  }
  await page.getByRole('button', { name: 'Failed only' }).click()
  await shown(/it failed/, 2)
  await page.getByRole('button', { name: 'Failed only' }).click()
  await page.getByLabel('Agent').selectOption('Parrot')
  await shown(/Parrot/)
  await page.getByLabel('Day').fill('2026-01-01')
  await page.getByText('Nothing matches').waitFor()
  await page.getByRole('button', { name: 'Show everything' }).click()
  await rows.nth(20).waitFor()
  await close()
})

test('a chart shows its total beside the title, for the chosen period', async () => {
  const { page, close } = await visit(browser, node.url)
  await page.goto(dashboard(''))
  const choice = page.getByRole('group', { name: 'Period: Executions' })
  await choice.getByRole('button', { name: '7 d' }).click()
  await page.getByRole('img', { name: /executions in the last 7 d, 2 of them failed/ }).waitFor()
  await page.locator('.chart-total').getByText('2 failed').waitFor()
  await close()
})

test('the browser announces a waiting purchase after notifications are turned on', async () => {
  const { page, close } = await visit(browser, node.url)
  // What a browser shows outside its page cannot be seen from within.
  await page.addInitScript(`
    window.told = []
    window.Notification = class {
      static permission = 'granted'
      static requestPermission = async () => 'granted'
      constructor(title, { body }) { window.told.push(title + ': ' + body) }
    }`)
  await page.clock.install()
  await page.goto(dashboard('/settings'))
  const notice = page.getByRole('switch', { name: 'Browser notifications' })
  expect(await notice.getAttribute('aria-checked')).toBe('false')
  await notice.click()
  await until(async () => (await notice.getAttribute('aria-checked')) === 'true')
  // What waited before the page first asked is not told: the order must come after the page has asked.
  let answers = 0
  page.on('response', (response) => {
    if (response.url().includes('/approvals')) answers++
  })
  await until(async () => {
    await page.clock.runFor(16_000)
    return answers >= 6
  })
  const listed = (await (await fetch(`${node.url}/agents?free=false`)).json()) as { id: string; local: boolean }[]
  const agent_id = listed.find(({ local }) => !local)!.id
  const body = JSON.stringify({ agent_id, price: '0.01', task: 'not for other eyes' })
  await fetch(`${node.url}/orders`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  await until(async () => {
    await page.clock.runFor(16_000)
    return ((await page.evaluate('window.told')) as string[]).length > 0
  })
  const told = (await page.evaluate('window.told')) as string[]
  expect(told).toEqual([expect.stringMatching(/^A purchase waits for your approval: Agent \d, 0\.00\d USDC$/)])
  await close()
})
