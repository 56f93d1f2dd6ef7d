import type { Source } from '../../schema/source.ts'
import { type Family, gauge, type MetricSources, type Value } from './metric-family.ts'

/** Metrics of the catalogs in config.yaml. A catalog that was never asked has no value. */
export const sourceFamilies: readonly Family[] = [
  gauge('stoa_source_up', '1: the catalog answered when it was last asked; 0: it failed.', (from) =>
    each(from, ({ state }) => (state === 'unasked' ? undefined : Number(state === 'ok'))),
  ),
  gauge('stoa_source_entries', 'Valid entries in the last answer of a catalog.', (from) =>
    each(from, ({ entries }) => entries),
  ),
  gauge('stoa_source_answered_timestamp_seconds', 'When a catalog last gave an answer that could be read.', (from) =>
    each(from, ({ answered_at: at }) => (at === undefined ? undefined : Date.parse(at) / 1000)),
  ),
  {
    ...{ name: 'stoa_source_failures_total', help: 'Requests to a catalog that failed.', type: 'counter' },
    read: (from) => each(from, ({ failures }) => failures),
  },
]

function each({ catalogs }: MetricSources, read: (source: Source) => number | undefined): Value[] {
  return catalogs().flatMap((source) => {
    const value = read(source)
    return value === undefined ? [] : { value, labels: { source: source.name } }
  })
}
