import chromium from '@sparticuz/chromium'
import { type Browser, type BrowserContextOptions, type Page, chromium as playwright } from 'playwright-core'
import { expect } from 'vitest'

/**
 * A real Chromium, from npm. Its package's own arguments would switch off what keeps origins apart, so none of them is
 * used; `hosts` are names that lead to this machine.
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
  /** What must not happen on any page: faults, refused scripts or styles, requests to anyone else. */
  faults: string[]
  /** Bytes of the dashboard's own files as they came over the wire. */
  bytes(): Promise<number>
  close(): Promise<void>
}

export async function visit(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<Visit> {
  const context = await browser.newContext({ locale: 'en-GB', viewport: { width: 1280, height: 860 }, ...options })
  const page = await context.newPage()
  page.setDefaultTimeout(15_000)
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
      // That a page is closed meanwhile matters only to who asks for its bytes.
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
