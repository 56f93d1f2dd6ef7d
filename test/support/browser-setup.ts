import chromium from '@sparticuz/chromium'
import { buildDashboard } from '../../dashboard/build.ts'

/** Once before all browser tests: two files that unpacked Chromium at the same time would run half of it. */
export default async function setup(): Promise<void> {
  await Promise.all([buildDashboard(), chromium.executablePath()])
}
