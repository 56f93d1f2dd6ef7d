import { isoTime } from '../lib/clock.ts'
import { formatPrice } from '../schema/amount.ts'
import type { Listing } from '../schema/listing.ts'
import { tagForm } from '../store/listing-text.ts'
import { DoorError, stillStarting } from './door-error.ts'
import { callable, profiles, type RoutingDeps, tagOf } from './routing.ts'

/** Agents in the list. Menus of clients break on thousands. */
const MODELS_MAX = 100
const TAGS_MAX = 20

/** `GET /v1/models`: the routes, common tags, and agents that can be called. */
export function modelList(deps: RoutingDeps, now: number) {
  const agents = callable(MODELS_MAX, deps)
  return { object: 'list', data: [...routes(now), ...tagRoutes(agents, now), ...agents.map(modelOf)] }
}

/** `GET /v1/models/{id}`. @throws DoorError 404; 503 if the node has just started */
export function oneModel(id: string, deps: RoutingDeps, now: number) {
  const route = routes(now).find((model) => model.id === id) ?? taggedRoute(id, deps, now)
  const listing = route === undefined ? deps.search.find(id) : undefined
  if (route !== undefined) return route
  if (listing !== undefined) return modelOf(listing)
  if (deps.isStarting?.() === true) throw stillStarting(`no agent ${JSON.stringify(id.slice(0, 100))} is known here`)
  const message = `no agent ${JSON.stringify(id.slice(0, 100))} is known here. GET /v1/models lists what can be called`
  throw new DoorError(message, { status: 404, type: 'invalid_request_error', code: 'model_not_found', param: 'model' })
}

const weights = { cheap: 'price', fast: 'time', best: 'success' } as const

/** The names that choose an agent for each request. */
function routes(now: number) {
  const created = Math.floor(now / 1000)
  const description = 'the agent that fits best now, by price, measured success, time and presence'
  const route = (id: string, more = '') => ({
    ...{ id, object: 'model', created, owned_by: 'stoa', name: id },
    description: description + more,
  })
  const weighed = profiles.map((profile) => route(`auto:${profile}`, `, with more weight on ${weights[profile]}`))
  return [route('auto'), ...weighed]
}

/** The tags that most of these agents have, each as a model. */
function tagRoutes(agents: readonly Listing[], now: number) {
  const counts = new Map<string, number>()
  for (const tag of agents.flatMap(({ tags }) => [...new Set(tags.map(tagForm))])) {
    // `tag:a:fast` names a profile, so a tag with a colon is ambiguous.
    if (!tag.includes(':')) counts.set(tag, (counts.get(tag) ?? 0) + 1)
  }
  const common = [...counts].toSorted(([, one], [, other]) => other - one).slice(0, TAGS_MAX)
  return common.map(([tag]) => tagRoute(`tag:${tag}`, now))
}

/** A route by a tag, such as `tag:translate:fast`, if an agent has it. @throws DoorError 400 for a malformed route */
function taggedRoute(id: string, deps: RoutingDeps, now: number) {
  const tag = tagOf(id)
  return tag !== undefined && deps.known.considered(tag).listings.length > 0 ? tagRoute(id, now) : undefined
}

function tagRoute(id: string, now: number) {
  const description = 'the agent with this tag that fits best now, by price, measured success, time and presence'
  return { id, object: 'model', created: Math.floor(now / 1000), owned_by: 'stoa', name: id, description }
}

/** A listing as a model. Fields beyond OpenAI's are those of OpenRouter, which some tools read. */
function modelOf({ id, name, description, price, local, seller_id, updated_at }: Listing) {
  const created = Math.floor(Date.parse(updated_at) / 1000)
  const request = local ? '0' : formatPrice(price)
  return {
    ...{ id, object: 'model', created, owned_by: seller_id, name, description },
    // In USD, as decimal text: the most that a call costs. A metered agent charges less by its use, on a channel only.
    pricing: { prompt: '0', completion: '0', request },
    architecture: { modality: 'text->text', input_modalities: ['text'], output_modalities: ['text'] },
    updated: isoTime(Date.parse(updated_at)),
  }
}
