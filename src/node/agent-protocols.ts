import { agentCard, aiCatalog, type CardOptions, hybridCard, marketCard } from '../a2a/cards.ts'
import { a2aMount } from '../a2a/mount.ts'
import type { Buyer } from '../buying/buyer.ts'
import type { Receipts } from '../ledger/receipts.ts'
import type { Tail } from '../ledger/tail.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Meters } from '../lib/meters.ts'
import type { Catalog } from '../listings/catalog.ts'
import { mcpMount } from '../mcp/mount.ts'
import type { DoorOptions } from '../openai/door.ts'
import { openAiMounts } from '../openai/mount.ts'
import type { PaidRunDeps } from '../protocols/x402/exchange.ts'
import type { WalletBalance } from '../schema/api.ts'
import type { Search } from '../search/search.ts'
import type { Sources } from '../sources/sources.ts'
import type { RunTime } from '../store/run-time.ts'
import type { SentMessageStore } from '../store/sent-messages.ts'
import type { TaskRecords } from '../store/task-records.ts'

type AgentProtocolsDeps = PaidRunDeps & {
  meters: Pick<Meters, 'count' | 'observe'>
  tail: Pick<Tail, 'listen'>
  records: TaskRecords
  messages: SentMessageStore
  runTime: RunTime
  buyer: Pick<Buyer, 'execute' | 'buyUrl' | 'again' | 'quote' | 'budget' | 'tokens' | 'approvals' | 'orders' | 'keys'>
  catalog: Pick<Catalog, 'local' | 'resolve'>
  search: Pick<Search, 'page' | 'find'>
  sources: Pick<Sources, 'search'>
  receipts: Pick<Receipts, 'list'>
  balance(): Promise<WalletBalance>
  /** True while the start has still to host agents. */
  isStarting(): boolean
}

type AgentProtocolsOptions = CardOptions & {
  openai: DoorOptions & { enabled: boolean; dailyBudgetAtomic: bigint }
}

/** The token that clients of the OpenAI door spend with if they have none of their own. */
export const OPENAI_TOKEN = { id: 'openai-door', name: 'OpenAI door' }

/** Offers the market over A2A, MCP and the API of OpenAI. Their code loads with the first request. */
export function createAgentProtocols(options: AgentProtocolsOptions, deps: AgentProtocolsDeps) {
  const { buyer, catalog, balance } = deps
  const loadTools = async () =>
    (await import('../tools/tools.ts')).createMarketTools({
      search: deps.search,
      catalogs: deps.sources.search,
      quote: buyer.quote,
      execute: buyer.execute,
      buyUrl: buyer.buyUrl,
      execution: (orderId, caller) => buyer.orders.get(orderId, caller),
      async budget({ tokenId }) {
        const token = tokenId === undefined ? undefined : await buyer.tokens.record(tokenId)
        const view = await buyer.budget.view()
        if (token?.scope !== 'spend') return view
        const { budget, per_day, spent, spent_today } = token
        return { ...view, token: { budget, per_day, spent, spent_today } }
      },
      approval: (id) => buyer.approvals.get(id),
      receipts: deps.receipts,
      balance,
      isStarting: deps.isStarting,
    })
  const a2a = a2aMount(async () => {
    const [{ createA2aServer }, { marketWork }, tools] = await Promise.all([
      import('../a2a/server.ts'),
      import('../a2a/market-work.ts'),
      loadTools(),
    ])
    const ownListing = (id: string) => {
      const listing = catalog.resolve(id)
      return listing?.local === true ? listing : undefined
    }
    return createA2aServer(options, { ...deps, ownListing, market: marketWork(tools) })
  })
  const mcp = mcpMount(async () => {
    const [{ createMcpHttp }, tools] = await Promise.all([import('../mcp/http.ts'), loadTools()])
    return createMcpHttp(options, { tools, logger: deps.logger })
  })
  const openai = openAiMounts(options.openai.enabled ? () => loadOpenAi(options.openai, deps) : undefined)
  const service: Service = {
    name: 'standards',
    start: async () => {},
    async stop() {
      await Promise.all([a2a.stop(), mcp.stop(), openai.stop()])
    },
  }
  /** `url` is the address where the caller found this node. */
  const cards = {
    agents: (url: string) => catalog.local().map((listing) => hybridCard(agentCard(listing, url, options))),
    /** Version 1.x gets the plain card. Other versions also get the fields of A2A 0.3. */
    node(url: string, version: string) {
      const card = marketCard(url, options)
      return version.startsWith('1.') ? card : hybridCard(card)
    },
    catalog: (url: string) => aiCatalog(catalog.local(), url, options),
  }
  return { api: { mounts: [a2a, mcp, ...openai.mounts], cards }, service }
}

async function loadOpenAi(
  { dailyBudgetAtomic, ...options }: AgentProtocolsOptions['openai'],
  { buyer, search, clock, logger, meters, isStarting }: AgentProtocolsDeps,
) {
  const { createDoor } = await import('../openai/door.ts')
  return createDoor(options, {
    ...{ clock, logger, meters, search, isStarting, execute: buyer.execute, again: buyer.again },
    perCall: () => buyer.budget.perCall(),
    isAllowed: ({ id, seller_id }) => buyer.budget.allows({ agentId: id, sellerId: seller_id }),
    ownToken: () => buyer.tokens.ofPart({ ...OPENAI_TOKEN, perDay: dailyBudgetAtomic }),
    async orderOf(key, caller) {
      const { items } = await buyer.orders.list({ idempotencyKey: key, limit: 1 }, caller)
      return items[0]
    },
    async lastOrder(prefix, { tokenId, isOperator }) {
      const found = await buyer.keys.last(prefix, { tokenId, orOperator: isOperator })
      // The keys were asked for those orders that this caller may see.
      const madeMsAgo = buyer.keys.now() - (found?.at ?? 0)
      return found && { key: found.key, order: await buyer.orders.get(found.orderId), madeMsAgo }
    },
  })
}
