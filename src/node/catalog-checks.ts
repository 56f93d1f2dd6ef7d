import { type Finding, ok, skip, warn } from '../lib/finding.ts'
import type { Source } from '../schema/source.ts'

/** Looks at what the catalogs answered last. Asks none: that is `stoa source test`. */
export function checkCatalogs(catalogs: readonly Source[]): Finding | Finding[] {
  if (catalogs.length === 0) return skip('none: sources in config.yaml')
  const failed = catalogs.filter(({ state }) => state === 'failed')
  if (failed.length === 0) {
    const asked = catalogs.filter(({ state }) => state === 'ok').length
    return ok(`${catalogs.length}, of which ${asked} answered when they were last asked, and none failed`)
  }
  return failed.map(({ name, error = 'it failed', answered_at: at }) => {
    const before = at === undefined ? 'it has not answered since the node started' : `it last answered at ${at}`
    return warn(`${name}: ${error}; ${before}`, `stoa source test ${name}; see docs/sources.md`)
  })
}
