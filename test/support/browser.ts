import chromium from '@sparticuz/chromium'
import { type Browser, type BrowserContextOptions, type Page, chromium as playwright } from 'playwright-core'
import { expect } from 'vitest'

/**
 * Starts a real Chromium from npm. The default arguments of its package would turn off origin isolation, so none of
 * them is used. `hosts` are names that resolve to this machine.
 */
export async function launchBrowser(hosts: readonly string[] = []): Promise<Browser> {
  const rules = hosts.map((name) => `MAP ${name} 127.0.0.1`).join(', ')
  return playwright.launch({
    executablePath: await chromium.executablePath(),
    args: ['--no-sandbox', '--disable-gpu', ...(rules === '' ? [] : [`--host-resolver-rules=${rules}`])],
  })
}

export type Visit = {
  page: Page
  /** Events that must not happen on any page: errors, blocked scripts or styles, requests to other hosts. */
  faults: string[]
  /** Bytes of the dashboard's files as sent over the network. */
  bytes(): Promise<number>
  close(): Promise<void>
}

export async function visit(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<Visit> {
  const context = await browser.newContext({ locale: 'en-GB', viewport: { width: 1280, height: 860 }, ...options })
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  const faults: string[] = []
  const sizes: Promise<number>[] = []
  page.on('pageerror', (error) => faults.push(error.message))
  page.on('console', (message) => {
    if (/content security policy|refused to/i.test(message.text())) faults.push(message.text())
  })
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) faults.push(`asked ${request.url()}`)
  })
  page.on('requestfinished', (request) => {
    if (new URL(request.url()).pathname.startsWith('/dashboard')) {
      const size = request.sizes().then(({ responseBodySize }) => responseBodySize)
      sizes.push(size)
      // A page may close first. Only a caller of `bytes()` needs the size.
      size.catch(() => {})
    }
  })
  return {
    page,
    faults,
    bytes: async () => (await Promise.all(sizes)).reduce((total, size) => total + size, 0),
    async close() {
      await context.close()
      expect(faults).toEqual([])
    },
  }
}
