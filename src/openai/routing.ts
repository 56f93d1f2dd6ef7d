import { llmProviders } from '../agents/model-name.ts'
import { smallest } from '../lib/bigints.ts'
import { TAG_LENGTH_MAX } from '../schema/limits.ts'
import type { Listing } from '../schema/listing.ts'
import { pointsTo } from '../search/agent-reference.ts'
import type { Search } from '../search/search.ts'
import { tagForm } from '../store/listing-text.ts'
import { DoorError, doorErrorOf, invalidRequest, stillStarting } from './door-error.ts'
import type { KnownAgents } from './known-agents.ts'

export const profiles = ['cheap', 'fast', 'best'] as const
type Profile = (typeof profiles)[number]

export type RoutingDeps = {
  search: Pick<Search, 'find'>
  known: KnownAgents
  /** The node's own limit of one call, in atomic units. */
  perCall(): bigint
  /** True if the operator's rules allow the seller and the agent. A free agent reads the prompt too. */
  isAllowed(listing: Listing): boolean
  /** True if the node has just started, and does not have all of its own agents yet. */
  isStarting?(): boolean
}

/** What a request asks for, and what it may cost. @internal Exported for its test. */
export type Wish = {
  names: readonly string[]
  /** The most that the request allows for one call, in atomic units. */
  asked: bigint | undefined
  /** The most that `auto`, `tag:` and a name alone pay for one call unless the request allows more, in atomic units. */
  autoMaxPrice: bigint
  /** False: the token of the caller may only run own and free agents. */
  maySpend: boolean
  /** True if the operator asks: own agents cost the operator nothing. Others may not run own agents with a price (D48). */
  isOperator: boolean
}

/** A listing that may serve a request, and the most to pay for it. Undefined: what the node pays for one call. */
export type Candidate = { listing: Listing; maxPrice: bigint | undefined }

/** Agents with this tag serve `auto`, as do agents that list a language model. */
const CHAT_TAG = 'chat'
/** Assumed for an agent that was never called: half of its calls succeed, and a call takes 5 s. */
const UNKNOWN_SUCCESS = 0.5
const UNKNOWN_MS = 5_000
/** A price of `PRICE_SCALE` atomic units halves the value of an agent for `auto`, and so does an answer after `TIME_SCALE_MS`. */
const PRICE_SCALE = 5_000
const TIME_SCALE_MS = 10_000

/**
 * The agents that may serve a request, the best first. An agent that the client names is the only one for its name.
 *
 * @throws DoorError 404 if no name leads to an agent; 503 if the node has just started
 */
export function candidates(wish: Wish, deps: RoutingDeps): Candidate[] {
  const { names, asked, autoMaxPrice } = wish
  const reasons: string[] = []
  const found = names.flatMap((name): Candidate[] => {
    const route = routeOf(name)
    if (route === undefined) {
      const listing = named(name, deps)
      if (listing === undefined) reasons.push(`no agent ${JSON.stringify(name)} is known here`)
      return listing === undefined ? [] : [{ listing, maxPrice: asked ?? limitOf(name, listing, autoMaxPrice) }]
    }
    const sorted = routed(route, wish, deps)
    if (sorted.length === 0) reasons.push(`${name}: ${nothing(route, asked === undefined)}`)
    return sorted.map((listing) => ({ listing, maxPrice: asked ?? autoMaxPrice }))
  })
  if (found.length > 0) return unique(found)
  if (deps.isStarting?.() === true) throw stillStarting(reasons.join('; '))
  const message = `${reasons.join('; ')}. GET /v1/models lists what can be called`
  throw new DoorError(message, { status: 404, type: 'invalid_request_error', code: 'model_not_found', param: 'model' })
}

/** Agents that can be called now, for the list of models. */
export function callable(max: number, deps: RoutingDeps): Listing[] {
  const mayBe = (listing: Listing) => costOf(listing) <= deps.perCall() && (listing.local || deps.isAllowed(listing))
  const fitting = deps.known.considered().listings.filter(mayBe)
  return fitting.slice(0, max)
}

type Route = { tag: string | undefined; profile: Profile | undefined }

/** `auto`, `auto:cheap`, `tag:translate`, `tag:translate:fast`. Undefined: the name of an agent. */
function routeOf(name: string): Route | undefined {
  const [head = '', ...parts] = name.split(':')
  if (head === 'auto' && parts.length < 2) {
    const [profile] = parts
    if (profile === undefined) return { tag: undefined, profile }
    if (isProfile(profile)) return { tag: undefined, profile }
    throw invalidRequest('model', `model: write auto, or auto:<profile> with one of ${profiles.join(', ')}`)
  }
  if (head !== 'tag') return undefined
  const last = parts.at(-1)
  const profile = parts.length > 1 && last !== undefined && isProfile(last) ? last : undefined
  const tag = (profile === undefined ? parts : parts.slice(0, -1)).join(':').trim()
  if (tag !== '' && tag.length <= TAG_LENGTH_MAX) return { tag, profile }
  throw invalidRequest('model', `model: write tag:<tag>, with a tag of 1 to ${TAG_LENGTH_MAX} characters`)
}

/** The tag of a route by tag. Undefined: it is none. @throws DoorError 400 for a malformed route */
export function tagOf(name: string): string | undefined {
  return routeOf(name)?.tag
}

function isProfile(text: string): text is Profile {
  return (profiles as readonly string[]).includes(text)
}

/**
 * A name alone pays no more than `auto`. Programs send the names of well-known models, and anybody may list an agent under
 * such a name, with or without a slash, or try names until an id begins like one. A client that sends a whole id or
 * `seller/name` has chosen the agent (T35).
 */
function limitOf(name: string, listing: Listing, autoMaxPrice: bigint): bigint | undefined {
  return listing.local || pointsTo(name, listing) ? undefined : autoMaxPrice
}

function named(name: string, { search }: RoutingDeps): Listing | undefined {
  try {
    return search.find(name, 'stats')
  } catch (error) {
    throw doorErrorOf(error, { isSigned: false, orderId: undefined }) ?? error
  }
}

function routed(route: Route, wish: Wish, deps: RoutingDeps): Listing[] {
  const after = deps.known.readings
  const found = sorted(route, wish, deps)
  // An agent may have come since the last reading. Read again what was read before this request, and nothing else.
  return found.length > 0 ? found : sorted(route, wish, deps, after)
}

function sorted({ tag, profile }: Route, wish: Wish, { known, perCall, isAllowed }: RoutingDeps, after = 0): Listing[] {
  const found = tag === undefined ? chatAgents(known, after) : known.considered(tag, { after }).listings
  const limit = wish.maySpend ? smallest(wish.asked ?? wish.autoMaxPrice, perCall()) : 0n
  const isOpen = (listing: Listing) => (listing.local ? listing.price === 0n || wish.isOperator : isAllowed(listing))
  const fitting = found.filter((listing) => isOpen(listing) && costOf(listing) <= limit)
  const rated = fitting.map((listing) => ({ listing, worth: worthOf(listing, profile) }))
  return rated.toSorted((one, other) => other.worth - one.worth).map(({ listing }) => listing)
}

/** The agents for `auto`. */
function chatAgents(known: KnownAgents, after: number): Listing[] {
  const { listings, isWhole } = known.considered(undefined, { after })
  const speaking = listings.filter((listing) => hasLanguageModel(listing) || (isWhole && isTagged(listing)))
  return isWhole ? speaking : [...known.considered(CHAT_TAG, { after }).listings, ...speaking]
}

function isTagged({ tags }: Listing): boolean {
  return tags.some((tag) => tagForm(tag) === tagForm(CHAT_TAG))
}

function hasLanguageModel({ model }: Listing): boolean {
  return (llmProviders as readonly string[]).includes(model?.split('/', 1)[0] ?? '')
}

/** Own agents cost nothing. */
function costOf({ local, price }: Listing): bigint {
  return local ? 0n : price
}

/** How good an agent is for a profile: price × measured success × time × whether it is online. */
function worthOf(listing: Listing, profile: Profile | undefined): number {
  const { stats, local, online, latency_ms: latency = 0 } = listing
  const calls = stats?.calls ?? 0
  // A few calls prove little, so two calls of an unknown agent are added.
  const success = ((stats?.success_rate ?? UNKNOWN_SUCCESS) * calls + UNKNOWN_SUCCESS * 2) / (calls + 2)
  const presence = local || online === true ? 1 : 0.7
  const cheap = 1 / (1 + Number(costOf(listing)) / PRICE_SCALE)
  const fast = 1 / (1 + ((stats?.p50_ms ?? UNKNOWN_MS) + (local ? 0 : latency)) / TIME_SCALE_MS)
  const weights = { cheap: [3, 1, 0.5], fast: [0.5, 1, 3], best: [0.1, 3, 0.5], none: [1, 1, 1] } as const
  const [price, measured, time] = weights[profile ?? 'none']
  return cheap ** price * success ** measured * fast ** time * presence
}

function nothing({ tag }: Route, isDefaultLimit: boolean): string {
  const who =
    tag === undefined ? `no agent with a language model or the tag ${CHAT_TAG}` : `no agent with the tag ${tag}`
  const how = isDefaultLimit ? ' within openai_max_price (send max_price to allow more)' : ' within max_price'
  return `${who} can be bought${how}, or the budget does not allow its seller`
}

function unique(found: readonly Candidate[]): Candidate[] {
  const seen = new Set<string>()
  return found.filter(({ listing: { id } }) => !seen.has(id) && seen.add(id))
}
