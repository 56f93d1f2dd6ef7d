import chromium from '@sparticuz/chromium'
import { buildDashboard } from '../../dashboard/build.ts'

/**
 * Unpacks Chromium once before all browser tests. Two files that unpack it at the same time would run an incomplete
 * browser.
 */
export default async function setup(): Promise<void> {
  await Promise.all([buildDashboard(), chromium.executablePath()])
}
