/** Purchases by URL in the dashboard: what was bought from a URL is no agent of the market, and no link leads to one. */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { call } from '../support/api-calls.ts'
import { launchBrowser, visit } from '../support/browser.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { startExpressSeller, type WebSeller } from '../support/web-seller.ts'

let browser: Browser
let devnet: Devnet
let express: WebSeller
let buyer: TestNode

beforeAll(async () => {
  ;[browser, devnet] = await Promise.all([launchBrowser(), startDevnet()])
  express = await startExpressSeller({
    facilitatorUrl: devnet.facilitatorUrl,
    payTo: devnet.wallets.seller.address,
    answer: ({ body }, response) => void response.json({ said: JSON.parse(body).task }),
  })
  const walletKey = devnet.wallets.buyer.privateKey
  buyer = await startTestNode({ devnet, walletKey, buyer: { privateOrigins: [express.origin] } })
})
afterAll(async () => {
  await browser?.close()
  await buyer?.stop()
  await express?.stop()
  await devnet?.stop()
})

test('order, payment, approval and workflow of a purchase by URL show its address and lead to no agent', async () => {
  const place = new URL(express.url).host + new URL(express.url).pathname
  const { body: placed } = await call(buyer.url, '/orders', {
    body: { url: express.url, task: 'hello', price: '0.02' },
  })
  const { id } = placed as { id: string }
  const { body: done } = await call(buyer.url, `/orders/${id}?wait=20`)
  const { payment } = done as { payment: { payment_id: string } }
  const steps = [{ id: 'one', url: express.url, max_price: '0.02' }]
  const { body: begun } = await call(buyer.url, '/workflows', { body: { input: 'step', steps } })
  const workflow = (begun as { id: string }).id
  await call(buyer.url, `/workflows/${workflow}?wait=20`)
  await call(buyer.url, '/budget', { method: 'PUT', body: { auto_approve_below: '0.005' } })
  await call(buyer.url, '/execute', { body: { url: express.url, task: 'ask me' } })

  const { page, close } = await visit(browser, buyer.url)
  const paths = [`/orders/${id}`, `/payments/${payment.payment_id}`, `/workflows/${workflow}`, '/approvals']
  for (const path of paths) {
    await page.goto(`${buyer.url}/dashboard${path}`)
    await page.locator('main').getByText(place, { exact: true }).first().waitFor()
    expect([path, await page.locator('main a[href*="/market/http"]').count()]).toEqual([path, 0])
  }
  await close()
})
