import * as z from 'zod'
import { type Operation, operation } from '../operation.ts'

/** The cards that agents of other markets read. `url` is the address where they found this node. */
export type CardsPart = {
  agents(url: string): object[]
  node(url: string, version: string): object
  catalog(url: string): object
}

const Card = z
  .looseObject({
    name: z.string(),
    description: z.string(),
    url: z.string().optional(),
    protocolVersion: z.string().optional(),
  })
  .meta({ id: 'AgentCard', description: 'An A2A agent card of version 1.0, with the fields that 0.3 needs.' })
const AiCatalog = z
  .looseObject({ specVersion: z.string(), entries: z.array(z.looseObject({ identifier: z.string() })) })
  .meta({ id: 'AiCatalog', description: 'An AI Catalog: the addresses of the cards of agents and servers.' })

const shared = { method: 'GET', tags: ['discovery'], access: 'health', scope: 'read' } as const

/** The paths that agents of other markets read first (D22). Anyone may read them, also off the loopback interface. */
export function discoveryRoutes(cards: CardsPart): Operation[] {
  return [
    operation({
      ...shared,
      id: 'listAgentCards',
      path: '/.well-known/agent.json',
      summary: 'A2A cards of the agents registered on this node',
      description: 'Each agent is an A2A server. Its card has the address. Paid agents take x402.',
      response: z.array(Card),
      handler: ({ url }) => cards.agents(url) as z.output<typeof Card>[],
    }),
    operation({
      ...shared,
      id: 'getNodeCard',
      path: '/.well-known/agent-card.json',
      summary: 'A2A card of the node itself',
      description: 'The node as an agent: it finds, quotes and buys other agents.',
      response: Card,
      headers: { vary: 'A2A-Version, Host' },
      handler: ({ url, headers }) => cards.node(url, String(headers['a2a-version'] ?? '')) as z.output<typeof Card>,
    }),
    operation({
      ...shared,
      id: 'getAiCatalog',
      path: '/.well-known/ai-catalog.json',
      summary: 'All agents and servers of this node',
      response: AiCatalog,
      handler: ({ url }) => cards.catalog(url) as z.output<typeof AiCatalog>,
    }),
  ]
}
