import type { SourceEntry } from '../schema/source.ts'
import type { CatalogEntry } from './catalog-item.ts'
import { usdcPrice } from './payable.ts'
import { fitOf } from './source.ts'

/** What decides the rank of an entry. This node's own measurements weigh most, the claims of the catalog least. */
type EntrySignals = {
  query: string
  /** Place in the answer of its catalog, from 0. */
  place: number
  state: SourceEntry['state']
  latencyMs: number | undefined
  /** How well it worked for this node, from 0 to 1. Undefined before the first purchase. */
  measured: number | undefined
  isLookAlike: boolean
}

const FIT = 0.5
const MEASURED = 0.4
/** The order of the catalog, which a catalog may sell. */
const PLACE = 0.1
const PRICE = 0.12
const LATENCY = 0.05
/** Payers and not calls: one payer can make any number of calls. */
const PAYERS = 0.06
const LOOK_ALIKE = -0.3
/** A resource that cannot be bought ranks below every resource that may. */
const states: Readonly<Record<SourceEntry['state'], number>> = {
  live: 0.3,
  unchecked: 0,
  changed: -1,
  unpayable: -1.5,
  dead: -2,
}
const UNKNOWN = 0.5
const PRICE_DIGITS_MAX = 12
const LATENCY_SCALE_MS = 1_000
const PAYERS_MAX = 10_000
/** Entries of one host that come before those of all other hosts. */
const PER_HOST = 5

/** Rounded, so that a score is the same wherever it is written. */
export function scoreOf(entry: CatalogEntry, signals: EntrySignals): number {
  const { query, place, state, latencyMs, measured, isLookAlike } = signals
  const price = usdcPrice(entry.listed.terms)
  const points = [
    FIT * fitOf(entry, query),
    MEASURED * (measured ?? UNKNOWN),
    PLACE / (1 + place / 5),
    PRICE * (price === undefined ? 0 : Math.max(0, 1 - Math.log10(1 + Number(price)) / PRICE_DIGITS_MAX)),
    LATENCY * (latencyMs === undefined ? 0 : 1 / (1 + latencyMs / LATENCY_SCALE_MS)),
    (PAYERS * Math.log10(1 + Math.min(PAYERS_MAX, entry.payers ?? 0))) / Math.log10(1 + PAYERS_MAX),
    states[state],
    isLookAlike ? LOOK_ALIKE : 0,
  ]
  return Math.round(points.reduce((sum, part) => sum + part, 0) * 1e6) / 1e6
}

/** Sorts the best first. Entries of one host beyond its share come after all others, so that one host cannot fill the answer. */
export function ranked<T extends { entry: CatalogEntry; score: number }>(found: readonly T[]): T[] {
  const sorted = found.toSorted((a, b) => b.score - a.score || (a.entry.id < b.entry.id ? -1 : 1))
  const counts = new Map<string, number>()
  const [near, far]: [T[], T[]] = [[], []]
  for (const one of sorted) {
    const host = new URL(one.entry.url).hostname
    const count = (counts.get(host) ?? 0) + 1
    counts.set(host, count)
    ;(count > PER_HOST ? far : near).push(one)
  }
  return [...near, ...far]
}
