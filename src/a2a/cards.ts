import { CALLER_HEADER, STOA_EXTENSION, X402_EXTENSION } from '../schema/a2a.ts'
import { formatPrice, usdc } from '../schema/amount.ts'
import { isOnChannelsOnly, type Listing } from '../schema/listing.ts'
import { pricingText } from '../schema/pricing.ts'

type Extension = { uri: string; description: string; required: boolean; params?: object }
type Skill = { id: string; name: string; description: string; tags: string[]; examples?: string[] }
type Interface = { url: string; protocolBinding: 'JSONRPC' | 'HTTP+JSON'; protocolVersion: '1.0' | '0.3' }

/** An A2A 1.0 agent card, as JSON. */
export type AgentCard = {
  name: string
  description: string
  supportedInterfaces: Interface[]
  version: string
  capabilities: { streaming: boolean; pushNotifications: boolean; extensions?: Extension[] }
  securitySchemes?: { bearer?: object; caller?: object }
  securityRequirements?: object[]
  defaultInputModes: string[]
  defaultOutputModes: string[]
  skills: Skill[]
}

/** A card that also has the fields of A2A 0.2 and 0.3 (D22). Readers of each version find all they need. */
type HybridCard = AgentCard & {
  url: string
  protocolVersion: '0.3.0'
  preferredTransport: 'JSONRPC'
  additionalInterfaces: { url: string; transport: string }[]
  supportsAuthenticatedExtendedCard: false
  security?: object[]
}

export type CardOptions = {
  version: string
  did: string
  /** True if callers must send the API token. */
  needsToken: boolean
  /** True if callers may send a secret of their own. */
  takesSecret?: boolean
}

/** The id of the node itself as an agent. It finds, quotes and buys from all other agents. Ids of agents are longer. */
export const MARKET_ID = 'market'

/** Builds the card of one local agent. `url` is the address where the caller found this node. */
export function agentCard(listing: Listing, url: string, options: CardOptions): AgentCard {
  const { id, name, description, tags } = listing
  const skills = [{ id, name, description, tags: tags.length > 0 ? [...tags] : ['agent'] }]
  return cardOf(
    { id, name, description, skills, extensions: extensionsOf(listing, options), modes: ['text/plain'] },
    url,
    options,
  )
}

/** Builds the card of the node itself. */
export function marketCard(url: string, options: CardOptions): AgentCard {
  return cardOf(
    {
      id: MARKET_ID,
      name: 'Stoa marketplace node',
      description:
        'Finds AI agents on a peer-to-peer market, quotes their prices and buys from them in USDC. Send a data part ' +
        '{"skill": "discover_agents", …}, or text to search for.',
      skills: marketSkills,
      extensions: [],
      modes: ['application/json', 'text/plain'],
    },
    url,
    options,
  )
}

/** Stands for any agent that is not for sale now. Nobody sees it. */
export function leftCard(options: CardOptions): AgentCard {
  const name = 'An agent that is not for sale now'
  return cardOf({ id: 'left', name, description: name, skills: [], extensions: [], modes: ['text/plain'] }, '', options)
}

export function hybridCard(card: AgentCard): HybridCard {
  const [first, ...others] = card.supportedInterfaces
    .filter(({ protocolVersion }) => protocolVersion === '0.3')
    .map(({ url, protocolBinding }) => ({ url, transport: protocolBinding }))
  return {
    ...card,
    url: first!.url,
    protocolVersion: '0.3.0',
    preferredTransport: 'JSONRPC',
    additionalInterfaces: [first!, ...others],
    supportsAuthenticatedExtendedCard: false,
    // Describes each security scheme in the fields of both versions.
    ...(card.securitySchemes?.bearer !== undefined && {
      securitySchemes: { bearer: { ...card.securitySchemes.bearer, type: 'http', scheme: 'bearer' } },
      security: [{ bearer: [] }],
    }),
    ...(card.securitySchemes?.caller !== undefined && {
      securitySchemes: {
        caller: { ...card.securitySchemes.caller, type: 'apiKey', in: 'header', name: CALLER_HEADER },
      },
    }),
  }
}

/** The AI Catalog of the node: its agents, the node itself, and its MCP server. */
export function aiCatalog(listings: readonly Listing[], url: string, options: CardOptions): object {
  const cardType = 'application/a2a-agent-card+json'
  return {
    specVersion: '1.0',
    host: { displayName: 'Stoa node', identifier: options.did },
    entries: [
      {
        identifier: `${options.did}#${MARKET_ID}`,
        displayName: 'Stoa marketplace node',
        mediaType: cardType,
        url: `${url}/a2a/${MARKET_ID}/.well-known/agent-card.json`,
      },
      {
        identifier: `${options.did}#mcp`,
        displayName: 'Stoa marketplace (MCP)',
        mediaType: 'application/mcp-server-card+json',
        data: {
          name: 'stoa',
          title: 'Stoa marketplace',
          description: 'Find, quote and buy AI agents on a peer-to-peer market.',
          version: options.version,
          remotes: [{ type: 'streamable-http', url: `${url}/mcp` }],
        },
      },
      ...listings.map(({ id, name, description, tags, updated_at }) => ({
        identifier: `urn:stoa:agent:${id}`,
        displayName: name,
        description,
        tags,
        updatedAt: updated_at,
        mediaType: cardType,
        url: `${url}/a2a/${id}/.well-known/agent-card.json`,
      })),
    ],
  }
}

const marketSkills: Skill[] = [
  {
    id: 'discover_agents',
    name: 'Discover agents',
    description: 'Finds agents on the market by text, tags and price.',
    tags: ['marketplace', 'search'],
    examples: ['{"skill": "discover_agents", "query": "summary", "max_price": "0.05"}'],
  },
  {
    id: 'quote_agent',
    name: 'Quote an agent',
    description: 'Asks a seller for the current price of one run of its agent. Pays nothing.',
    tags: ['marketplace', 'price'],
    examples: ['{"skill": "quote_agent", "agent_id": "…"}'],
  },
  {
    id: 'execute_agent',
    name: 'Execute an agent',
    description:
      'Runs a task on an agent and pays its listed price, at most max_price, within the budget of this node.',
    tags: ['marketplace', 'purchase'],
    examples: ['{"skill": "execute_agent", "agent_id": "…", "task": "Summarize: …", "max_price": "0.05"}'],
  },
]

const secretScheme = {
  location: 'header',
  name: CALLER_HEADER,
  description:
    'Optional: a secret that you choose, such as a UUID. Send it with each request: then nobody else can read, follow or cancel your tasks.',
}

type Parts = {
  id: string
  name: string
  description: string
  skills: Skill[]
  extensions: Extension[]
  modes: string[]
}

function cardOf(parts: Parts, nodeUrl: string, { version, needsToken, takesSecret }: CardOptions): AgentCard {
  const url = `${nodeUrl}/a2a/${parts.id}`
  const versions = ['1.0', '0.3'] as const
  return {
    name: parts.name,
    description: parts.description,
    supportedInterfaces: versions.flatMap((protocolVersion): Interface[] => [
      { url, protocolBinding: 'JSONRPC', protocolVersion },
      { url: `${url}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion },
    ]),
    version,
    capabilities: {
      streaming: true,
      pushNotifications: false,
      ...(parts.extensions.length > 0 && { extensions: parts.extensions }),
    },
    ...(needsToken && {
      securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } },
      securityRequirements: [{ schemes: { bearer: { list: [] } } }],
    }),
    // No requirement names this scheme, so callers may leave it out.
    ...(takesSecret === true && { securitySchemes: { caller: { apiKeySecurityScheme: secretScheme } } }),
    defaultInputModes: parts.modes,
    defaultOutputModes: parts.modes,
    skills: parts.skills,
  }
}

function extensionsOf(listing: Listing, { did }: CardOptions): Extension[] {
  const { id, seller_id, protocols, price, pricing, network, asset, pay_to, addrs, token_id } = listing
  const stoa: Extension = {
    uri: STOA_EXTENSION,
    description: 'The same agent over libp2p: who sells it, where, over which protocols and at what price.',
    required: false,
    params: {
      agentId: id,
      peerId: seller_id,
      did,
      addrs,
      protocols,
      price: {
        amount: formatPrice(price),
        currency: 'USDC',
        atomic: price.toString(),
        network,
        asset,
        ...(pricing !== undefined && { pricing: pricingText(pricing), max: formatPrice(pricing.max) }),
      },
      ...(price > 0n && { payTo: pay_to }),
      ...(token_id !== undefined && { tokenId: token_id }),
    },
  }
  const x402: Extension = {
    uri: X402_EXTENSION,
    description: `Paid per task with x402: ${usdc(price)} on ${network}.`,
    required: true,
  }
  // An agent that is sold on channels only takes no payment over A2A.
  return price > 0n && !isOnChannelsOnly(listing) ? [x402, stoa] : [stoa]
}
