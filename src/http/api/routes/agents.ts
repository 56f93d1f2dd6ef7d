import { AgentParams, Listings, RegisterAgent } from '../../../schema/api.ts'
import { operatorFields, PAGE_LISTINGS_MAX } from '../../../schema/limits.ts'
import { Listing } from '../../../schema/listing.ts'
import { RegisteredAgent } from '../../../schema/own-agent.ts'
import { AgentQuery, type AgentScope, OneAgentQuery } from '../../../schema/search.ts'
import type { Search } from '../../../search/search.ts'
import { HttpError } from '../../server/problem.ts'
import { type Operation, operation, paged } from '../operation.ts'
import type { OwnAgentsPart } from './own-agents.ts'
import { refuseAgent } from './refuse-agent.ts'

type Market = Pick<Search, 'page' | 'find'>

/** They reveal how often this node bought from whom, and for how much, so pages of other sites may not ask. */
const privateQuery = ['include', 'explain']
/** Instructions may have 64,000 characters of four bytes each. */
const DEFINITION_BYTES_MAX = 384 * 1024
const manyAgents = `Without parameters the answer has all of them, at most ${PAGE_LISTINGS_MAX}. If there are more, the Link header names the next page.`

export function agentRoutes(market: Market, ownAgents: Pick<OwnAgentsPart, 'register'>): Operation[] {
  return [
    listing(market, 'all', {
      id: 'listAgents',
      path: '/agents',
      summary: 'All known agents',
      description: `The agents of this node and those of its peers. ${manyAgents}`,
    }),
    listing(market, 'local', {
      id: 'listLocalAgents',
      path: '/agents/local',
      summary: 'Agents registered on this node',
      description: manyAgents,
    }),
    listing(market, 'discovered', {
      id: 'discoverAgents',
      path: '/agents/discover',
      summary: 'Agents discovered from peers',
      description: manyAgents,
    }),
    getAgent(market),
    registerAgent(ownAgents),
  ]
}

const read = { method: 'GET', tags: ['agents'], access: 'public', scope: 'read', privateQuery } as const

const listing = (market: Market, scope: AgentScope, row: Pick<Operation, 'id' | 'path' | 'summary' | 'description'>) =>
  operation({
    ...read,
    ...row,
    query: AgentQuery,
    response: Listings,
    errors: ['CURSOR_INVALID'],
    handler: ({ query }) => paged(market.page(query, scope)),
  })

const getAgent = (market: Market) =>
  operation({
    ...read,
    id: 'getAgent',
    path: '/agents/{id}',
    summary: 'One agent',
    description:
      'Takes an id, the beginning of an id, a name that no other agent has, or `seller/name` (percent-encoded). ' +
      'Operations that spend or change something take only the id.',
    params: AgentParams,
    query: OneAgentQuery,
    response: Listing,
    errors: ['UNKNOWN_AGENT', 'AMBIGUOUS_AGENT'],
    handler({ params, query }) {
      const found = market.find(params.id, query.include)
      if (found !== undefined) return found
      throw new HttpError('UNKNOWN_AGENT', 'no agent with this id is listed. GET /agents shows all agents')
    },
  })

const registerAgent = (ownAgents: Pick<OwnAgentsPart, 'register'>) =>
  operation({
    id: 'registerAgent',
    method: 'POST',
    repeatable: true,
    path: '/agents',
    summary: 'Register an agent',
    description:
      'Hosts the agent, stores it in agents.yaml and lists it on the market. A second agent with the same name ' +
      'updates the first, which keeps its id. Changes this process only: `differs_at` names the others.',
    tags: ['agents'],
    access: 'private',
    scope: 'admin',
    body: RegisterAgent,
    example: { name: 'Summary', description: 'Summarizes any text.', price: 0.01, model: 'builtin/summarize' },
    bodyBytesMax: DEFINITION_BYTES_MAX,
    operatorFields: {
      names: operatorFields,
      reason:
        'this field names a program, an address or a key of the operator. Write it into agents.yaml on the machine ' +
        'of the node',
    },
    response: RegisteredAgent,
    status: 201,
    errors: ['FIELD_NOT_ALLOWED', 'AGENTS_TOO_MANY', 'LISTINGS_FULL', 'CONFIG_INVALID', 'STORE_WRITE_FAILED'],
    location: ({ id }) => `/agents/${id}`,
    handler: ({ body }) => ownAgents.register(body).catch(refuseAgent),
  })
