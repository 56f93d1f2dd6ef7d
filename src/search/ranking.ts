import type { UnixMs } from '../lib/clock.ts'
import { foldText, wordsOf } from '../lib/text/fold.ts'
import { stemOf } from '../lib/text/stem.ts'
import { usdc } from '../schema/amount.ts'
import { LISTING_TTL_MS, type Listing, type Ranking, type rankingSignals } from '../schema/listing.ts'
import type { Reading } from './query-words.ts'

/** What this node knows about whether a seller answers. */
export type Presence = { online: boolean; latencyMs?: number | undefined }

/** Everything that decides the rank of a listing. */
export type Signals = {
  /** How well the words fit, from 0 to 1 for the best fit found. Undefined if the query has no words. */
  fit: number | undefined
  /** True if the listing's name equals the query. */
  named: boolean
  /** Atomic units. */
  price: number
  /** Undefined if unknown. */
  presence: Presence | undefined
  /** Time since the seller confirmed the listing. */
  ageMs: UnixMs
  /** How well the agent worked for this node, from 0 (never works) to 1. Undefined before its first use. */
  measured: number | undefined
  /** `measured` in words. */
  measuredDetail?: string | undefined
  /** True if people may mistake it for an older listing of another seller. */
  isLookAlike: boolean
}

type Points = Record<(typeof rankingSignals)[number], number>

/**
 * The most points that each signal can add. Points are subtracted only if the agent cannot be bought or may deceive.
 */
const TEXT = 0.8
const PRESENCE = 0.18
const PRICE = 0.12
const MEASURED = 0.1
const FRESHNESS = 0.05
/**
 * More than all other signals together: a seller that does not answer ranks below every seller that may, within a block
 * (pages.ts).
 */
const OFFLINE = -2
const LOOK_ALIKE = -0.15

/**
 * The most `fit` can count without an exact name. A listing whose name equals the query therefore ranks above any other
 * fit.
 */
const FIT_MAX = 0.7
/** An unknown value counts as a medium value. */
const UNKNOWN = 0.5
const LATENCY_SCALE_MS = 250
/** The highest price has 12 digits. Price counts by its ratio (logarithm), not by its difference. */
const PRICE_DIGITS_MAX = 12

const places = ['name', 'tags', 'description'] as const

export function pointsOf(signals: Signals): Points {
  const { fit, named, price, presence, ageMs, measured, isLookAlike } = signals
  return {
    text: fit === undefined ? 0 : TEXT * (named ? 1 : FIT_MAX * within(fit)),
    presence: presencePoints(presence),
    price: PRICE * (1 - within(Math.log10(1 + price) / PRICE_DIGITS_MAX)),
    freshness: FRESHNESS * (1 - within(ageMs / LISTING_TTL_MS)),
    measured: MEASURED * within(measured ?? UNKNOWN),
    look_alike: isLookAlike ? LOOK_ALIKE : 0,
  }
}

/** Rounded, so that a score is the same wherever it is written. */
export function scoreOf({ text, presence, price, freshness, measured, look_alike }: Points): number {
  return Math.round((text + presence + price + freshness + measured + look_alike) * 1e6) / 1e6
}

/** The score with its reasons in words. `fitDetail` says which words were found where (`whereFound`). */
export function explain(signals: Signals, fitDetail: string): Ranking {
  const points = pointsOf(signals)
  const details: Record<keyof Points, string | undefined> = {
    text: signals.fit === undefined ? undefined : fitDetail,
    presence: presenceDetail(signals.presence),
    price: signals.price === 0 ? 'free' : usdc(BigInt(signals.price)),
    freshness: `confirmed ${ageText(signals.ageMs)} ago`,
    measured:
      signals.measured === undefined
        ? 'not used yet'
        : (signals.measuredDetail ?? `${Math.round(signals.measured * 100)} % succeeded`),
    look_alike: signals.isLookAlike ? 'looks like an older listing of another seller' : undefined,
  }
  const reasons = (Object.keys(details) as (keyof Points)[]).flatMap((signal) => {
    const detail = details[signal]
    return detail === undefined ? [] : [{ signal, points: rounded(points[signal]), detail }]
  })
  return { score: scoreOf(points), reasons }
}

function presencePoints(presence: Presence | undefined): number {
  if (presence === undefined) return PRESENCE * UNKNOWN
  if (!presence.online) return OFFLINE
  const near = presence.latencyMs === undefined ? UNKNOWN : within(1 / (1 + presence.latencyMs / LATENCY_SCALE_MS))
  return PRESENCE * (0.6 + 0.4 * near)
}

function presenceDetail(presence: Presence | undefined): string {
  if (presence === undefined) return 'its seller is not known to be online'
  if (!presence.online) return 'its seller does not answer'
  return presence.latencyMs === undefined ? 'online' : `online, ${Math.round(presence.latencyMs)} ms away`
}

function ageText(ageMs: number): string {
  const minutes = Math.max(0, Math.round(ageMs / 60_000))
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`
}

/** NaN counts as 0. */
function within(share: number): number {
  return share > 0 ? Math.min(1, share) : 0
}

function rounded(points: number): number {
  return Math.round(points * 1000) / 1000
}

/** Describes in words which of the searched words appear in which part of a listing. */
export function whereFound(listing: Listing, { list, corrected }: Reading, named: boolean): string {
  const texts = { name: listing.name, tags: listing.tags.join(' , '), description: listing.description }
  const found = places.map((place) => ({ place, words: wordsOf(foldText(texts[place])), hits: [] as string[] }))
  const missing: string[] = []
  for (const { tokens, begins } of list) {
    const first = found.find(({ words }) => holds(words, tokens, begins))
    const shown = tokens.join('')
    if (first === undefined) missing.push(shown)
    else first.hits.push(shown)
  }
  const parts = found.filter(({ hits }) => hits.length > 0).map(({ place, hits }) => `${listed(hits)} in its ${place}`)
  return [
    ...(named ? ['the name that was typed'] : []),
    ...parts,
    ...(missing.length > 0 && !named ? [`without ${listed(missing)}`] : []),
    ...[...corrected].map(([typed, taken]) => `“${typed}” taken for “${taken}”`),
  ].join('; ')
}

function holds(words: readonly string[], tokens: readonly string[], begins: boolean): boolean {
  const last = tokens.length - 1
  const fits = (word: string | undefined, place: number) =>
    word !== undefined &&
    (stemOf(word) === stemOf(tokens[place]!) || (begins && place === last && word.startsWith(tokens[place]!)))
  return words.some((_, at) => tokens.every((_token, place) => fits(words[at + place], place)))
}

function listed(words: readonly string[]): string {
  return words.map((word) => `“${word}”`).join(', ')
}
