import { BoundedMap } from '../lib/bounded-map.ts'
import { type Clock, monotonicOf, type UnixMs } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import type { GuardedRequest } from '../lib/guarded-request.ts'
import { parseJson } from '../lib/json.ts'
import { TokenBuckets } from '../lib/token-buckets.ts'
import { orAborted } from '../lib/wait.ts'
import type { Asset } from '../payments/assets.ts'
import type { SourceEntry, SourceTerms } from '../schema/source.ts'
import type { CatalogEntry } from './catalog-item.ts'
import { cleanText, fieldOf } from './foreign.ts'
import { choosePayable, differenceOf, payableTerms } from './payable.ts'

export type Verdict = {
  state: SourceEntry['state']
  /** Why it is not buyable. */
  reason?: string
  at?: UnixMs
  latencyMs?: number
  expected?: SourceTerms
}

/** What a purchase by URL would refuse: an entry that cannot be bought is not shown as buyable. */
export type PurchaseRules = {
  /** Why this address is not bought from. */
  refusalOf(url: string): string | undefined
  /** True for an origin of the operator's own networks. */
  isOwn(url: string): boolean
}

type ProbeDeps = {
  clock: Clock
  asset: Asset
  /** Reaches the open internet only. */
  outside: GuardedRequest
  /** Reaches also the own network, for catalogs whose entry in config.yaml allows it, at origins that are bought from. */
  anywhere: GuardedRequest
  purchases: PurchaseRules
  stopping: AbortSignal
}

/** Asks resources without payment, so that nobody is sent to a dead one. */
type Prober = {
  /** What is known without asking. */
  known(entry: CatalogEntry): Verdict
  /** Asks, unless it did so lately. @throws the signal's reason */
  probe(entry: CatalogEntry, options: { isPrivateAllowed: boolean }, signal: AbortSignal): Promise<Verdict>
}

const ANSWER_MS = 5_000
const FRESH_MS = 5 * 60_000
const VERDICTS_MAX = 1_000
const FLIGHTS_MAX = 16
const ANSWER_BYTES_MAX = 256 * 1024
const HEADER_LENGTH_MAX = 16 * 1024
/** A catalog must not turn this node against a site: requests to one host, and to all. */
const perHost = { burst: 5, perSecond: 5 / 60, keysMax: 1_000 }
const toAll = { burst: 40, perSecond: 1, keysMax: 1 }

export function createProber({ clock, asset, outside, anywhere, purchases, stopping }: ProbeDeps): Prober {
  const verdicts = new BoundedMap<string, Verdict & { at: UnixMs; askedAt: number }>(VERDICTS_MAX)
  const flights = new Map<string, Promise<Verdict>>()
  const hosts = new TokenBuckets(perHost)
  const all = new TokenBuckets(toAll)

  function known(entry: CatalogEntry): Verdict {
    const reason = refusalOf(entry) ?? purchases.refusalOf(entry.url)
    if (reason !== undefined) return { state: 'unpayable', reason }
    const verdict = verdicts.get(claimKey(entry))
    if (verdict !== undefined && monotonicOf(clock) - verdict.askedAt < FRESH_MS) return verdict
    return { state: 'unchecked', reason: 'it was not asked yet whether it answers' }
  }

  function mayAsk(url: string): boolean {
    const now = monotonicOf(clock)
    const { hostname } = new URL(url)
    if (flights.size >= FLIGHTS_MAX || !all.has('all', 1, now) || !hosts.take(hostname, 1, now)) return false
    return all.take('all', 1, now)
  }

  async function ask(entry: CatalogEntry, request: GuardedRequest): Promise<Verdict> {
    const askedAt = monotonicOf(clock)
    const signal = AbortSignal.any([AbortSignal.timeout(ANSWER_MS), stopping])
    const verdict = await judge(entry, request, signal).catch(
      (error: unknown): Verdict => ({
        state: 'dead',
        reason: signal.aborted ? `it did not answer in ${ANSWER_MS / 1000} s` : failureOf(error),
      }),
    )
    const full = { ...verdict, at: clock.now(), latencyMs: Math.max(0, Math.round(monotonicOf(clock) - askedAt)) }
    if (!stopping.aborted) verdicts.set(claimKey(entry), { ...full, askedAt })
    return full
  }

  async function judge(entry: CatalogEntry, request: GuardedRequest, signal: AbortSignal): Promise<Verdict> {
    const body = entry.method === 'POST' ? { body: '{}' } : {}
    const headers = {
      accept: 'application/json',
      ...(entry.method === 'POST' && { 'content-type': 'application/json' }),
    }
    const method = entry.method === 'POST' ? 'POST' : 'GET'
    const answer = await request(entry.url, { method, headers, ...body, signal, bytesMax: ANSWER_BYTES_MAX })
    const { status } = answer
    if (status !== 402)
      return { state: 'dead', reason: `it answers with status ${status} without payment, and not with 402` }
    const asked = readTerms(answer.header('payment-required'), answer.text)
    if (asked === undefined) return { state: 'dead', reason: 'its 402 answer has no terms of x402' }
    if (isElsewhere(asked, entry.url)) return { state: 'changed', reason: 'its terms are for another address' }
    const choice = choosePayable(fieldOf(asked, 'accepts'), asset)
    if (choice.kind === 'other') return { state: 'unpayable', reason: choice.reason }
    const difference = differenceOf(entry.listed, choice.terms)
    if (difference !== undefined) return { state: 'changed', reason: difference }
    return { state: 'live', expected: payableTerms(choice.terms) }
  }

  return {
    known,
    async probe(entry, { isPrivateAllowed }, signal) {
      const before = known(entry)
      if (before.state !== 'unchecked') return before
      const key = claimKey(entry)
      let flight = flights.get(key)
      if (flight === undefined) {
        if (!mayAsk(entry.url))
          return { state: 'unchecked', reason: 'too many resources were asked: ask again in a minute' }
        flight = ask(entry, isPrivateAllowed && purchases.isOwn(entry.url) ? anywhere : outside).finally(() =>
          flights.delete(key),
        )
        flights.set(key, flight)
      }
      return await orAborted(flight, signal)
    },
  }
}

/** The terms are part of the key, because another catalog may state other terms for the same resource. */
export function claimKey({ id, listed }: CatalogEntry): string {
  return `${id} ${listed.kind} ${listed.terms?.network} ${listed.terms?.asset} ${listed.terms?.payTo} ${listed.terms?.amount}`
}

/** Why the entry cannot be bought, if a request would not change that. Then none is sent. */
function refusalOf({ type, method, listed }: CatalogEntry): string | undefined {
  if (type === 'mcp') return 'it is a tool of an MCP server, and this node buys HTTP resources only'
  if (method !== 'GET' && method !== 'POST') return `it takes ${method}, and this node buys with GET and POST only`
  return listed.kind === 'other' && listed.terms !== undefined ? listed.reason : undefined
}

/** v2 has its terms in a header, v1 in the body. */
function readTerms(header: string | undefined, text: string): object | undefined {
  const isHeader = header !== undefined && header.length <= HEADER_LENGTH_MAX && /^[A-Za-z0-9+/]+={0,2}$/.test(header)
  const terms = parseJson(isHeader ? Buffer.from(header, 'base64') : text)
  const version = fieldOf(terms, 'x402Version')
  return version === (isHeader ? 2 : 1) && Array.isArray(fieldOf(terms, 'accepts')) ? (terms as object) : undefined
}

/** A client that signs for the terms of another site pays that site. */
function isElsewhere(terms: object, asked: string): boolean {
  const [first] = fieldOf(terms, 'accepts') as unknown[]
  const named = fieldOf(fieldOf(terms, 'resource'), 'url') ?? fieldOf(first, 'resource')
  if (typeof named !== 'string') return false
  return URL.parse(named)?.host !== new URL(asked).host
}

function failureOf(error: unknown): string {
  const { code } = error as { code?: unknown }
  if (code === 'ADDRESS_NOT_PUBLIC')
    return 'its address is not on the open internet, and its origin is not in buyer.private_origins'
  if (code === 'ANSWER_TOO_LARGE') return 'its answer is too large'
  return `it cannot be reached: ${cleanText(reasonOf(error), 200)}`
}
