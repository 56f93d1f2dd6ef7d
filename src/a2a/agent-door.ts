import { createHash } from 'node:crypto'
import type { A2ARequestHandler } from '@a2a-js/sdk/server'
import { CodedError } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import type { A2aCall } from './call.ts'
import { type AgentCard, hybridCard } from './cards.ts'
import { answerJsonRpc } from './json-rpc.ts'
import { readBody } from './request-body.ts'
import type { Rest } from './rest.ts'

export type ServedAgent = {
  handler: A2ARequestHandler
  /** Builds the card of the agent with this id. `url` is the address where the caller found this node. */
  cardAt(url: string, id: string): AgentCard
  changedAt: Date
  /** The HTTP+JSON binding. Loads with its first request. */
  rest?: Promise<Rest>
}

/** How long a client may cache a card. Then the ETag tells whether the card changed. */
const CARD_AGE_SECONDS = 60

/** The card, JSON-RPC, or HTTP+JSON. @throws CodedError NOT_FOUND, METHOD_NOT_ALLOWED, BODY_TOO_LARGE */
export async function answerAgent(agent: ServedAgent, call: A2aCall, deps: { logger: Logger }): Promise<void> {
  const [path = '', query] = call.rest.split('?', 2)
  const [, id = '', place = '', ...below] = path.split('/')
  const { method } = call.request
  if (place === '.well-known' && /^agent(?:-card)?\.json$/.test(below.join('/'))) {
    if (method !== 'GET' && method !== 'HEAD') throw notAllowed('GET, HEAD')
    return sendCard(call, agent, id)
  }
  if (place === 'rest') {
    agent.rest ??= import('./rest.ts').then(({ createRest }) => createRest(agent.handler, deps))
    const target = `/${below.join('/')}${query === undefined ? '' : `?${query}`}`
    return (await agent.rest)(call, await readBody(call.request), target)
  }
  if (place !== '') throw new CodedError('NOT_FOUND', 'the agent has no such path. Its card lists its addresses')
  if (method !== 'POST') throw notAllowed('POST')
  return answerJsonRpc(call, await readBody(call.request), agent.handler)
}

/** Version 1.x gets the plain card. Other versions also get the fields of A2A 0.3. */
function sendCard({ request, response, url }: A2aCall, { cardAt, changedAt }: ServedAgent, id: string): void {
  const card = cardAt(url.replace(/\/a2a$/, ''), id)
  const isCurrent = String(request.headers['a2a-version'] ?? '').startsWith('1.')
  const body = JSON.stringify(isCurrent ? card : hybridCard(card))
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
  const headers = {
    etag,
    'last-modified': changedAt.toUTCString(),
    vary: 'A2A-Version, Host',
    'cache-control': `public, max-age=${CARD_AGE_SECONDS}`,
  }
  if (request.headers['if-none-match'] === etag) return void response.writeHead(304, headers).end()
  response.writeHead(200, { ...headers, 'content-type': 'application/json' })
  response.end(body)
}

function notAllowed(methods: string): CodedError {
  return new CodedError('METHOD_NOT_ALLOWED', `this path answers ${methods}`)
}
