/** What the pages say while the database of the ledger is away, to somebody who was there before and to a newcomer. */
import type { Browser, Page } from 'playwright-core'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launchBrowser, visit } from '../support/browser.ts'
import { startTestNode, stopTestNodes, type TestNode } from '../support/loopback-node.ts'
import { type PostgresProxy, startPostgresProxy } from '../support/postgres-proxy.ts'
import { createTestDatabase, type TestDatabase, testPostgres } from '../support/test-postgres.ts'

let browser: Browser
let proxy: PostgresProxy
let database: TestDatabase
let node: TestNode
beforeAll(async () => {
  const { host, port } = await testPostgres()
  ;[browser, proxy, database] = await Promise.all([
    launchBrowser(),
    startPostgresProxy({ host, port }),
    createTestDatabase(),
  ])
  node = await startTestNode({
    ...{ key: generatePrivateKey(), databaseUrl: database.address(proxy.port), apiEnabled: true, publicDht: false },
  })
  const { id } = await node.registerAgent({ name: 'Own', description: 'd', price: 0n, model: 'builtin/echo' })
  await node.execute({ agentId: id, input: 'hello', signal: AbortSignal.timeout(60_000) })
})
afterAll(async () => {
  await browser?.close()
  await stopTestNodes()
  await proxy?.close()
  await database?.drop()
})

const away = (page: Page) => page.getByText('The ledger cannot be read now.', { exact: true })
const go = async (page: Page, path: string) => {
  await page.goto(`${node.apiUrl}/dashboard${path}`)
  await page.getByRole('heading', { level: 1 }).waitFor()
}
/** The cells of the table row that names the agent. */
const cells = (page: Page) => page.getByRole('row', { name: /Own/ }).getByRole('cell').allInnerTexts()

test('each page says that the ledger cannot be read, and shows what was known as such, or nothing', async () => {
  const { page: before, close: closeBefore } = await visit(browser, node.apiUrl!)
  await go(before, '')
  await before.getByText('Executions today').waitFor()
  // Commands stand in the type of commands.
  await before.getByRole('listitem').locator('code', { hasText: 'stoa status' }).waitFor()
  await away(before).waitFor({ state: 'hidden' })
  expect(await before.getByText('Not known now').count()).toBe(0)

  proxy.onMessage(() => 'cut')
  proxy.cut()
  await away(before).waitFor()
  await before.getByText('Not known now: the ledger cannot be read').waitFor()
  await before.getByText('What you see was known before').waitFor()
  // Known before: not taken away.
  await before.getByText('Executions today').waitFor()

  const { page, close } = await visit(browser, node.apiUrl!)
  await go(page, '')
  await away(page).waitFor()
  await page.getByText('Not known now: the ledger cannot be read').waitFor()
  await page.getByText('Not known: the ledger cannot be read now.').waitFor()
  expect(await page.getByText('No alerts').count()).toBe(0)
  expect(await page.getByText(/0\.00/).count()).toBe(0)
  await go(page, '/agents')
  await away(page).waitFor()
  expect(await cells(page)).toEqual(['on sale', 'free', '–', '–', '–', '–', '–'])
  for (const path of ['/payments', '/wallet', '/activity', '/machines', '/approvals', '/workflows', '/sessions']) {
    await go(page, path)
    await away(page).waitFor()
  }

  proxy.onMessage(() => 'pass')
  proxy.cut()
  for (const each of [before, page]) await away(each).waitFor({ state: 'hidden', timeout: 60_000 })
  await go(page, '/agents')
  await page.getByRole('cell', { name: '0.00' }).waitFor()
  expect(await cells(page)).toEqual(
    ['on sale', 'free', '1', '0', '1 ms', '1 ms', '0.00'].map((text) => (text === '1 ms' ? expect.any(String) : text)),
  )
  await close()
  await closeBefore()
})
