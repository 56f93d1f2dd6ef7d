import { isoTime } from '../lib/clock.ts'
import { formatPrice } from '../schema/amount.ts'
import type { Listing } from '../schema/listing.ts'
import { DoorError } from './door-error.ts'
import { callable, profiles, type RoutingDeps } from './routing.ts'

/** Agents in the list. Menus of clients break on thousands. */
const MODELS_MAX = 100

/** `GET /v1/models`: what would be routed now. */
export function modelList(deps: RoutingDeps, now: number) {
  return { object: 'list', data: [...routes(now), ...callable(MODELS_MAX, deps).map(modelOf)] }
}

/** `GET /v1/models/{id}`. @throws DoorError 404 */
export function oneModel(id: string, deps: RoutingDeps, now: number) {
  const route = routes(now).find((model) => model.id === id)
  const listing = route === undefined ? deps.search.find(id) : undefined
  if (route !== undefined) return route
  if (listing !== undefined) return modelOf(listing)
  const message = `no agent ${JSON.stringify(id.slice(0, 100))} is known here. GET /v1/models lists what can be called`
  throw new DoorError(message, { status: 404, type: 'invalid_request_error', code: 'model_not_found', param: 'model' })
}

/** The names that choose an agent for each request. */
function routes(now: number) {
  const created = Math.floor(now / 1000)
  return ['auto', ...profiles.map((profile) => `auto:${profile}`)].map((id) => ({
    ...{ id, object: 'model', created, owned_by: 'stoa', name: id },
    description: 'the agent that fits best now, by price, measured success, time and presence',
  }))
}

/** A listing as a model. Fields beyond OpenAI's are those of OpenRouter, which some tools read. */
function modelOf({ id, name, description, price, local, seller_id, updated_at }: Listing) {
  const created = Math.floor(Date.parse(updated_at) / 1000)
  const request = local ? '0' : formatPrice(price)
  return {
    ...{ id, object: 'model', created, owned_by: seller_id, name, description },
    // In USD, as decimal text. The price is per call.
    pricing: { prompt: '0', completion: '0', request },
    architecture: { modality: 'text->text', input_modalities: ['text'], output_modalities: ['text'] },
    updated: isoTime(Date.parse(updated_at)),
  }
}
