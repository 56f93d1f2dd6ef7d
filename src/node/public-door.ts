import type { X402Words } from '../a2a/agent-work.ts'
import type { A2aServerDeps } from '../a2a/server.ts'
import { strangerOf } from '../a2a/stranger.ts'
import type { Config } from '../config/config.ts'
import type { PublicListener } from '../http/public/public-listener.ts'
import type { PublicMount } from '../http/public/public-mount.ts'
import type { PublicIndex } from '../http/public/public-openapi.ts'
import type { Meters } from '../lib/meters.ts'
import type { Catalog } from '../listings/catalog.ts'
import { ChannelDoor } from '../protocols/doors/channel-door.ts'
import { DoorSales } from '../protocols/doors/door-sales.ts'
import { PayerLimits } from '../protocols/doors/payer-limits.ts'
import { settledResponse } from '../protocols/doors/settle-response.ts'
import { type AgentText, type ChannelOffer, DoorTerms } from '../protocols/doors/terms.ts'
import type { X402ServerDeps } from '../protocols/x402/exchange.ts'
import type { Foundation } from './foundation.ts'
import type { Selling } from './selling.ts'

type PublicDoorDeps = Pick<Foundation, 'clock' | 'logger' | 'asset' | 'wallet' | 'version' | 'identity'> & {
  meters: Pick<Meters, 'count'>
  selling: Pick<Selling, 'registry'> & { x402: X402ServerDeps }
  /** What A2A needs beside the sales. */
  a2a: Pick<A2aServerDeps, 'records' | 'messages' | 'runTime' | 'tail'>
  catalog: Pick<Catalog, 'resolve'>
}

/** The listener for strangers, if the operator has opened one. Its parts load only then. */
export async function createPublicDoor(config: Config, deps: PublicDoorDeps): Promise<PublicListener | undefined> {
  const { host, port, url, tls, trustedProxies } = config.public
  if (port === undefined) return undefined
  const [
    { createPublicListener },
    { createAgentSale },
    { createSiteReader },
    { PublicLimits, publicLimits },
    { createPublicTls },
    { publicOpenApi },
  ] = await Promise.all([
    import('../http/public/public-listener.ts'),
    import('../http/public/agent-sale.ts'),
    import('../http/public/client-site.ts'),
    import('../http/public/public-limits.ts'),
    import('../http/public/public-tls.ts'),
    import('../http/public/public-openapi.ts'),
  ])
  const { clock, logger, asset, selling, meters } = deps
  const { registry, x402: sales } = selling
  const payers = new PayerLimits({ clock })
  const doorSales = new DoorSales(sales, payers)
  const signer = sales.receiptSigner
  const channel = () => channelOffer(config, deps)
  const channelDoor = sales.channels && new ChannelDoor({ ...sales, channels: sales.channels })
  const terms = new DoorTerms({ clock, asset, payTo: sales.payTo, signer, channel })
  const agentSale = createAgentSale({
    ...{ sales, doorSales, signer, terms, channelDoor },
    publicUrl: () => listener.url,
    textOf: (id) => textOf(registry.get(id)?.definition),
  })
  const mounts = createPublicMounts({ ...deps, payers, doorSales, terms, url: () => listener.url })
  function index(): PublicIndex {
    const agents = offeredBy(registry).map(({ id, price, text: { name, description, tags } }) => {
      const place = { url: `${listener.url}/x402/${id}`, method: 'POST' as const }
      return { agent_id: id, name, description, tags, price_atomic: price.toString(), ...place }
    })
    return { network: asset.network, asset: asset.address, agents }
  }
  const listener: PublicListener = createPublicListener(
    {
      ...{ host, port, url, drainMs: config.seller.drainSeconds * 1000 },
      tls: tls && createPublicTls(tls, { clock, logger: logger.child({ part: 'public' }), url }),
    },
    {
      ...{ logger, meters, agentSale, index, mounts },
      openApi: () => publicOpenApi(index(), { version: deps.version, url: listener.url }),
      doorSales: bothSales(doorSales, channelDoor),
      limits: new PublicLimits(publicLimits, { clock }),
      sites: createSiteReader(trustedProxies),
    },
  )
  return listener
}

/** What payment channels to this seller must be. Undefined: it takes none, or no deposits. */
function channelOffer(
  { seller }: Config,
  { wallet, selling: { x402 } }: Pick<PublicDoorDeps, 'wallet' | 'selling'>,
): ChannelOffer | undefined {
  if (x402.channels === undefined || x402.channelFunds === undefined) return undefined
  const { channelWithdrawDelaySeconds: withdrawDelay, channelMinDepositAtomic: minDeposit } = seller
  const { address: receiverAuthorizer } = wallet.channelSigner('claims')
  return { receiverAuthorizer, withdrawDelay, minDeposit, isOpen: x402.channels.takesNew }
}

/** The work that a stop waits for and then cancels. */
function bothSales(doorSales: DoorSales, channelDoor: ChannelDoor | undefined): Pick<DoorSales, 'idle' | 'abort'> {
  return {
    idle: async () => void (await Promise.all([doorSales.idle(), channelDoor?.idle()])),
    abort(reason) {
      doorSales.abort(reason)
      channelDoor?.abort(reason)
    },
  }
}

type MountsDeps = PublicDoorDeps & { payers: PayerLimits; doorSales: DoorSales; terms: DoorTerms; url(): string }

/** The same agents over A2A and as MCP tools. Their libraries load with the first request. */
function createPublicMounts(deps: MountsDeps): PublicMount[] {
  const { selling, catalog, version, identity, url, payers, doorSales, terms, logger } = deps
  const { registry, x402: sales } = selling
  const ownListing = (id: string) => {
    const listing = catalog.resolve(id)
    return listing?.local === true ? listing : undefined
  }
  const a2a = onDemand(async () => {
    const { createA2aServer } = await import('../a2a/server.ts')
    const options = { version, did: identity.did, needsToken: false, takesSecret: true }
    return createA2aServer(options, { ...sales, ...deps.a2a, payers, ownListing, x402: x402Words(deps) })
  })
  const mcp = onDemand(async () => {
    const [{ createAgentMcp }, { createAgentTools }] = await Promise.all([
      import('../mcp/agent-server.ts'),
      import('../mcp/agent-tools.ts'),
    ])
    const agents = () => offeredBy(registry)
    const endpoint = () => `${url()}/mcp`
    const tools = createAgentTools({ sales, doorSales, terms, signer: sales.receiptSigner, endpoint, agents })
    return createAgentMcp({ version }, { tools, logger })
  })
  return [
    {
      path: '/a2a',
      handle: async (call) =>
        (await a2a.get()).handle({ ...call, url: `${url()}/a2a`, caller: strangerOf(call.request.headers) }),
      stop: a2a.stop,
    },
    {
      path: '/mcp',
      handle: async (call) => (await mcp.get()).handle(call),
      stop: mcp.stop,
    },
  ]
}

/** What x402's offer-receipt extension has of agents over A2A, as at the other doors. */
function x402Words({ selling, terms, url }: MountsDeps): X402Words {
  const { registry, x402: sales } = selling
  const urlOf = (agentId: string) => `${url()}/a2a/${agentId}`
  return {
    offer(agent) {
      const text = textOf(registry.get(agent.id)?.definition)
      const resource = { url: urlOf(agent.id), mimeType: 'text/plain', isUpfront: false, isListed: false } as const
      return text && (terms.of(agent, text, resource).v2('') as { extensions?: object }).extensions
    },
    settled({ agentId, ...sold }) {
      const bought = { agentId, network: sales.asset.network, resourceUrl: urlOf(agentId) }
      return settledResponse(sold, bought, sales.receiptSigner)
    },
  }
}

/** A part that is made at its first use. If that fails, the next use tries again. */
function onDemand<T extends { stop(): Promise<void> }>(make: () => Promise<T>) {
  let making: Promise<T> | undefined
  return {
    get(): Promise<T> {
      making ??= make().catch((error: unknown) => {
        making = undefined
        throw error
      })
      return making
    },
    async stop(): Promise<void> {
      await (await making?.catch(() => undefined))?.stop()
    },
  }
}

/**
 * The agents that strangers may buy. Leaves out agents that cannot be called, as the market does, and agents that are sold on
 * channels only. Names agents that the start has still to host: their callers are told to try again.
 */
function offeredBy(registry: Selling['registry']): { id: string; price: bigint; text: AgentText }[] {
  const hosted = registry.list().filter(({ lacks }) => lacks === undefined)
  return [...hosted, ...registry.expected()].flatMap(({ id, definition }) => {
    if (definition.paused === true || definition.price === undefined) return []
    return { id, price: definition.price, text: textOf(definition)! }
  })
}

function textOf(definition: { name: string; description: string; tags?: readonly string[] | undefined } | undefined) {
  if (definition === undefined) return undefined
  const { name, description, tags = [] } = definition
  return { name, description, tags } satisfies AgentText
}
