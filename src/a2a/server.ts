import { createHash } from 'node:crypto'
import { AgentCard as CardMessage } from '@a2a-js/sdk'
import type { A2ARequestHandler } from '@a2a-js/sdk/server'
import type { Clock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import type { Listing } from '../schema/listing.ts'
import type { TaskRecords } from '../store/task-records.ts'
import { type AgentWorkDeps, agentWork } from './agent-work.ts'
import type { A2aCall } from './call.ts'
import { type AgentCard, agentCard, type CardOptions, hybridCard, MARKET_ID, marketCard } from './cards.ts'
import { createExecutor, type Work } from './executor.ts'
import { answerJsonRpc } from './json-rpc.ts'
import { readBody } from './request-body.ts'
import { createRequestHandler } from './request-handler.ts'
import type { Rest } from './rest.ts'
import { A2aTasks } from './tasks.ts'

export type A2aServerDeps = AgentWorkDeps & {
  clock: Clock
  logger: Logger
  records: TaskRecords
  /** Listings of this node's own agents. */
  ownListing(id: string): Listing | undefined
  /** What the node as an agent does. */
  market: Work
}

export interface A2aServer {
  /** Answers, or throws a CodedError: UNKNOWN_AGENT, NOT_FOUND, METHOD_NOT_ALLOWED, BODY_TOO_LARGE. */
  handle(call: A2aCall): Promise<void>
  /** Stops what runs; its payments are voided. */
  stop(): void
}

/** An agent as a server: built with its first request, and anew when its listing changes. */
type Served = { handler: A2ARequestHandler; cardAt(url: string): AgentCard; rest?: Promise<Rest> }

/** A2A servers for every agent of this node, and one for the node itself, behind one door. */
export function createA2aServer(options: CardOptions, deps: A2aServerDeps): A2aServer {
  const logger = deps.logger.child({ part: 'a2a' })
  const tasks = new A2aTasks(deps)
  const agents = new WeakMap<Listing, Served>()
  let market: Served | undefined

  function serve(id: string, cardAt: (url: string) => AgentCard, work: Work): Served {
    const card = cardAt('')
    const extensions = card.capabilities.extensions?.map(({ uri }) => uri) ?? []
    const executor = createExecutor({ clock: deps.clock, logger, tasks, work, extensions })
    return { cardAt, handler: createRequestHandler(id, CardMessage.fromJSON(card), { tasks, executor }) }
  }

  function find(id: string): Served {
    if (id === MARKET_ID) {
      market ??= serve(id, (url) => marketCard(url, options), deps.market)
      return market
    }
    const listing = deps.ownListing(id)
    if (listing === undefined) throw new CodedError('UNKNOWN_AGENT', 'this node has no agent with this id')
    const known = agents.get(listing)
    if (known !== undefined) return known
    const work = agentWork(id, listing.description, deps)
    const served = serve(id, (url) => agentCard(listing, url, options), work)
    agents.set(listing, served)
    return served
  }

  return {
    async handle(call) {
      const [path = '', query] = call.rest.split('?', 2)
      const [, id = '', place = '', ...below] = path.split('/')
      const served = find(id)
      const isRead = call.request.method === 'GET' || call.request.method === 'HEAD'
      if (place === '.well-known' && /^agent(?:-card)?\.json$/.test(below.join('/'))) {
        if (!isRead) throw notAllowed('GET, HEAD')
        return sendCard(call, served.cardAt(call.url.replace(/\/a2a$/, '')))
      }
      if (place === 'rest') {
        served.rest ??= import('./rest.ts').then(({ createRest }) => createRest(served.handler, { logger }))
        const target = `/${below.join('/')}${query === undefined ? '' : `?${query}`}`
        return (await served.rest)(call, await readBody(call.request), target)
      }
      if (place !== '') throw new CodedError('NOT_FOUND', 'an agent has no such path: see its card')
      if (call.request.method !== 'POST') throw notAllowed('POST')
      return answerJsonRpc(call, await readBody(call.request), served.handler)
    },
    stop() {
      tasks.abortAll(new Error('the node is stopping'))
    },
  }
}

/** As the reader's version wants it: 1.0 alone, or with what 0.3 looks for beside it. */
function sendCard({ request, response }: A2aCall, card: AgentCard): void {
  const version = String(request.headers['a2a-version'] ?? '')
  const body = JSON.stringify(/^1\./.test(version) ? card : hybridCard(card))
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
  const headers = { etag, vary: 'A2A-Version, Host', 'cache-control': 'no-cache' }
  if (request.headers['if-none-match'] === etag) return void response.writeHead(304, headers).end()
  response.writeHead(200, { ...headers, 'content-type': 'application/json' })
  response.end(body)
}

function notAllowed(methods: string): CodedError {
  return new CodedError('METHOD_NOT_ALLOWED', `this path answers ${methods}`)
}
