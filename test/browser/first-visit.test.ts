/** The dashboard in a real browser: how it comes, who gets in, and what a page of another origin can do. */
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launchBrowser, visit } from '../support/browser.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'

const FIRST_LOAD_BYTES_MAX = 150_000
const foreign = 'shop.example'

let browser: Browser
let node: TestNode
let closed: TestNode
beforeAll(async () => {
  browser = await launchBrowser([foreign])
  node = await startTestNode()
  closed = await startTestNode({ api: { host: '0.0.0.0' } })
})
afterAll(async () => {
  await browser?.close()
  await Promise.all([node?.stop(), closed?.stop()])
})

test('a first visit shows the node in less than 150 kB, without requests to others', async () => {
  const { page, bytes, close } = await visit(browser, node.url)
  await page.goto(`${node.url}/dashboard`)
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.getByText('connected to no peer').waitFor()
  const size = await bytes()
  expect(size).toBeGreaterThan(10_000)
  expect(size).toBeLessThan(FIRST_LOAD_BYTES_MAX)
  await close()
})

test('every URL of the dashboard opens, and the back button works', async () => {
  const { page, close } = await visit(browser, node.url)
  await page.goto(`${node.url}/dashboard/market`)
  await page.getByText('No agent is known yet').waitFor()
  await page.getByRole('link', { name: 'Overview' }).click()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.goBack()
  await page.getByRole('heading', { name: 'Market' }).waitFor()
  await page.goto(`${node.url}/dashboard/no/such/page`)
  await page.getByText('No such page').waitFor()
  await close()
})

test('the theme follows the system until the user chooses another, and the choice stays', async () => {
  const { page, close } = await visit(browser, node.url, { colorScheme: 'dark' })
  const background = () => page.evaluate('getComputedStyle(document.body).backgroundColor')
  await page.goto(`${node.url}/dashboard`)
  const dark = await background()
  await page.getByLabel('Theme').selectOption('Light')
  const light = await background()
  expect(light).not.toBe(dark)
  await page.reload()
  expect(await background()).toBe(light)
  await close()
})

test('D16 a node that listens beyond loopback admits nobody without its token', async () => {
  const url = `http://127.0.0.1:${new URL(closed.url).port}`
  const { page, close } = await visit(browser, url)
  await page.goto(`${url}/dashboard`)
  const field = page.getByLabel('API token')
  await field.waitFor()
  const { violations } = await new AxeBuilder({ page }).analyze()
  expect(violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')).toEqual([])
  await field.fill('not-the-token-of-this-node')
  await page.getByRole('button', { name: 'Open the dashboard' }).click()
  await page.getByText('The API token is wrong').waitFor()
  await field.fill(await readFile(join(closed.dataDir, 'api.token'), 'utf8'))
  await page.getByRole('button', { name: 'Open the dashboard' }).click()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.reload()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  expect(await page.evaluate('localStorage.length')).toBe(0)
  await page.getByRole('button', { name: 'Log out' }).click()
  await field.waitFor()
  await close()
})

/** A page of somebody else, open in the same browser as the dashboard. */
async function foreignPage() {
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>shop</title>')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, url: `http://${foreign}:${(server.address() as AddressInfo).port}/` }
}

test('T11 a page of another origin cannot read private data or spend', async () => {
  const { server, url } = await foreignPage()
  const context = await browser.newContext()
  try {
    const own = await context.newPage()
    await own.goto(`${node.url}/dashboard`)
    const page = await context.newPage()
    await page.goto(url)
    const seen = await page.evaluate(async (api) => {
      const tried: Record<string, string> = {}
      const attempt = async (name: string, path: string, init: RequestInit = {}) => {
        tried[name] = await fetch(api + path, { ...init, signal: AbortSignal.timeout(3_000) }).then(
          async (answer) => `${answer.type} ${answer.status} ${await answer.text()}`,
          () => 'refused',
        )
      }
      const order = JSON.stringify({ agent_id: 'a'.repeat(32), price: '1', task: 'x' })
      const json = { 'content-type': 'application/json' }
      await attempt('status', '/status')
      await attempt('orders', '/orders', { credentials: 'include' })
      await attempt('events', '/events')
      await attempt('order', '/orders', { method: 'POST', headers: json, body: order })
      // What a form could send, which no preflight holds back.
      await attempt('form', '/orders', { method: 'POST', mode: 'no-cors', body: order })
      await attempt('cancel', '/orders/x', { method: 'DELETE' })
      await attempt('public', '/agents')
      return tried
    }, node.url)
    expect(seen).toMatchObject({
      status: 'refused',
      orders: 'refused',
      events: 'refused',
      order: 'refused',
      form: 'refused',
      cancel: 'refused',
    })
    // Public reads are for any page (D16): the listings, and nothing else.
    expect(seen.public).toMatch(/^cors 200 \[/)
    expect(await (await fetch(`${node.url}/orders`)).json()).toEqual([])

    // Nor does it get the dashboard into a frame of its own, to have it clicked unseen.
    await page.setContent(`<iframe src="${node.url}/dashboard" title="framed"></iframe>`)
    expect(await page.frameLocator('iframe').locator('#root').count()).toBe(0)
    expect(page.frames().some((frame) => frame.url().startsWith(node.url))).toBe(false)
  } finally {
    await context.close()
    server.close()
  }
})
