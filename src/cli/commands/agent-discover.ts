import * as z from 'zod'
import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import { countText, UsdcText } from '../../config/values.ts'
import { defined } from '../../lib/defined.ts'
import { poll } from '../../lib/wait.ts'
import { PAGE_LISTINGS_MAX, QUERY_LENGTH_MAX, TAG_LENGTH_MAX, TAGS_MAX } from '../../schema/limits.ts'
import { Listing } from '../../schema/listing.ts'
import type { Page } from '../../schema/page.ts'
import { type AgentQuery, agentSorts } from '../../schema/search.ts'
import type { EntryQuery, SourceResults } from '../../schema/source.ts'
import { type Context, command, flag, option, repeated } from '../command.ts'
import { UsageError } from '../exit-code.ts'
import { networkOptions } from '../node-access/network-options.ts'
import { withOwnNode } from '../node-access/own-node.ts'
import { findRunningNode } from '../node-access/running-node.ts'
import { showAgents } from '../text/agent-cards.ts'
import { showEntries } from '../text/entry-cards.ts'
import { type MarketSearch, metText, namePeerText, searchText } from '../text/market-search-text.ts'
import { oneOf } from '../text/market-text.ts'
import { withSpinner } from '../text/spinner.ts'

const WAIT_SECONDS = 8
/** A list that did not grow for this long counts as complete. */
const QUIET_MS = 1500
/** Default number of results: the best ones. `--limit` shows more. */
const FOUND_MAX = 20
const LIMIT_MAX = 100_000

const TagTexts = z
  .array(z.string().trim().min(1, 'a tag').max(TAG_LENGTH_MAX, `a tag of at most ${TAG_LENGTH_MAX} characters`))
  .max(TAGS_MAX, `at most ${TAGS_MAX} tags`)
const SellerText = z.string().regex(/^[1-9A-HJ-NP-Za-km-z]{40,64}$/, 'a peer id, such as 12D3KooW…')

export const agentDiscover = command({
  name: 'agent discover',
  summary: 'Find agents on the market, with their names, prices and sellers',
  details:
    'Describe the task in plain words, or give the name of an agent. Without words, all agents are listed. The command asks the node that runs on the data directory. If no node runs, the command starts a temporary node, listens for listings and stops the node.',
  argument: { name: 'query', isOptional: true, description: 'the task in plain words, or the name of an agent' },
  examples: [
    'stoa agent discover',
    'stoa agent discover "summarize a contract" --max-price 0.01',
    'stoa agent discover translate --tag legal --free --online',
    'stoa agent discover --sort price --json | jq -r ".[].id"',
    'stoa agent discover "weather" --sources',
    'stoa agent discover --bootstrap /ip4/203.0.113.7/tcp/4001/p2p/12D3KooW…',
  ],
  options: {
    ...networkOptions,
    maxPrice: option('--max-price <usdc>', 'only agents that cost at most this', UsdcText),
    free: flag('--free', 'only free agents'),
    online: flag('--online', 'only agents whose seller is known to be online'),
    anyNetwork: flag(
      '--any-network',
      'also agents that are sold on another network; this node cannot buy them. A list without words always has them',
    ),
    tags: repeated('--tag <tag>', 'only agents with this tag; may be repeated', TagTexts),
    seller: option('--seller <peer id>', 'only agents of this seller', SellerText),
    sort: option('--sort <order>', `${agentSorts.join(', ')} (default: rank)`, oneOf(agentSorts)),
    limit: option(
      '--limit <n>',
      `how many agents to show (default: ${FOUND_MAX} with a query, otherwise all)`,
      countText(LIMIT_MAX),
    ),
    sources: flag('--sources', 'also search the catalogs of config.yaml; their entries are shown apart'),
    explain: flag('--explain', 'show how the rank of each agent was computed'),
    wait: option('--wait <seconds>', `how long to listen if no node runs (default: ${WAIT_SECONDS})`, countText(600)),
  },
  async run(context, values, words) {
    const {
      wait = WAIT_SECONDS,
      limit,
      maxPrice,
      free,
      online,
      anyNetwork,
      tags,
      seller,
      sort,
      explain,
      sources,
      ...flags
    } = values
    const q = words?.trim() ?? ''
    if (q.length > QUERY_LENGTH_MAX) throw new UsageError(`the query is longer than ${QUERY_LENGTH_MAX} characters`)
    const query: AgentQuery = {
      include: 'stats',
      ...(q !== '' && { q }),
      ...(anyNetwork === true && { network: 'any' as const }),
      ...defined({ max_price: maxPrice, free, online, tags, seller_id: seller, sort, explain }),
    }
    const shownMax = limit ?? (q === '' ? LIMIT_MAX : FOUND_MAX)
    const { config, secrets } = await context.loadConfig(flags)
    const running = await findRunningNode(context, config, secrets)
    const { signal } = context.io
    const find = (ask: Ask) => collect(ask, query, shownMax)
    const beside = async (ask: AskCatalogs) =>
      sources === true ? await ask({ ...defined({ q: query.q, max_price: maxPrice }), probe: true }, signal) : undefined
    const { items, next, search, known, catalogs } =
      running === undefined
        ? await listen(context, { config, secrets, port: flags.port }, { limitMs: wait * 1000, find, beside })
        : await find((part) => running.node.searchAgents(part, { signal })).then(async (page) => ({
            ...page,
            catalogs: await beside((part) => running.node.searchSources(part, { signal })),
            known: undefined,
            search: page.items.length === 0 ? (await running.node.status({ signal })).search : undefined,
          }))
    const shown = items.map((listing) => z.encode(Listing, listing))
    if (context.json) context.printJson(catalogs === undefined ? shown : { agents: shown, catalogs })
    else {
      showAgents(context, items, {
        none: noneFound(query, { search, known, alone: running === undefined && config.p2p.bootstrap.length === 0 }),
        hasMore: next !== undefined,
      })
      if (catalogs !== undefined) showEntries(context, catalogs)
    }
  },
})

type AskCatalogs = (query: EntryQuery, signal: AbortSignal) => Promise<SourceResults>
type Ask = (query: AgentQuery) => Promise<Page<Listing>> | Page<Listing>

async function collect(ask: Ask, query: AgentQuery, itemsMax: number): Promise<Page<Listing>> {
  const items: Listing[] = []
  let next: string | undefined
  do {
    const limit = Math.min(PAGE_LISTINGS_MAX, itemsMax - items.length)
    const page = await ask({ ...query, limit, ...(next !== undefined && { cursor: next }) })
    items.push(...page.items)
    next = page.next
  } while (next !== undefined && items.length < itemsMax)
  return { items, next }
}

type ListenOptions = {
  limitMs: number
  find(ask: Ask): Promise<Page<Listing>>
  /** Searches the catalogs, if the user wants them. */
  beside(ask: AskCatalogs): Promise<SourceResults | undefined>
}

/** Joins the network until no new listings arrive or the time is over. Then searches the market. */
async function listen(
  context: Context,
  node: { config: Config; secrets: Secrets; port: number | undefined },
  { limitMs, find, beside }: ListenOptions,
): Promise<Page<Listing> & MarketKnowledge & { catalogs: SourceResults | undefined }> {
  const output = context.json ? undefined : context.io.stderr
  return await withSpinner(output, 'no node is running: starting a temporary node to listen for listings', () =>
    withOwnNode(context, node, async (own) => {
      let quietSince = performance.now()
      let count = 0
      const isQuiet = () => {
        const { length } = own.listings()
        if (length !== count) quietSince = performance.now()
        count = length
        return (count > 0 && performance.now() - quietSince >= QUIET_MS) || undefined
      }
      await poll(isQuiet, { limitMs, signal: context.io.signal })
      const found = await find((query) => own.market.page(query))
      const catalogs = await beside(own.sources.search)
      return { ...found, catalogs, search: (await own.status()).search, known: own.listings().length }
    }),
  )
}

/** What a node has met. `known`: listings of any network; undefined where it is not asked for. */
type MarketKnowledge = { search: MarketSearch | undefined; known: number | undefined }

function noneFound(
  { explain: _explain, sort: _sort, include: _include, ...limits }: AgentQuery,
  { search, known = 0, alone }: MarketKnowledge & { alone: boolean },
): string {
  const isLimited = Object.keys(limits).length > 0
  const nobody = search?.met === 0 ? search : undefined
  if (known > 0) {
    const among = `no agents found among the ${known} known ${known === 1 ? 'agent' : 'agents'}`
    return isLimited
      ? `${among}: try fewer words or filters`
      : `${among}: --any-network also shows agents on other networks`
  }
  if (search !== undefined && search.met > 0 && known === 0 && alone) return `no agents found: ${metText(search.met)}`
  if (alone) {
    const tried = nobody === undefined ? '' : ` (tried: ${nobody.tried.join(', ')})`
    return `no agents found: ${namePeerText()}, or listen longer with --wait 60${tried}`
  }
  if (nobody !== undefined) return `no agents found: ${searchText(nobody)}`
  return isLimited ? 'no agents found: try fewer words or filters' : 'no agents found'
}
