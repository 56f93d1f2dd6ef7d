import type { Registry } from '../agents/registry.ts'
import type { Tokens } from '../buying/tokens.ts'
import type { Config } from '../config/config.ts'
import type { Earnings } from '../ledger/stats.ts'
import type { Host } from '../p2p/host.ts'
import { formatPrice } from '../schema/amount.ts'
import type { Door } from '../schema/door.ts'
import type { Doors, DoorTests } from '../schema/doors.ts'
import { OPENAI_TOKEN } from './agent-protocols.ts'

type PlacesDeps = {
  host: Pick<Host, 'addresses'>
  registry: Pick<Registry, 'list'>
  /** Where strangers buy over HTTP. Undefined: nowhere. */
  publicUrl(): string | undefined
}

type DoorsDeps = PlacesDeps & {
  config: Pick<Config, 'openai'>
  earnings: Earnings
  /** The local API. `url` is undefined if it is off. */
  localApi(): { url?: string | undefined; needsToken: boolean }
  tokens: Pick<Tokens, 'record'>
  tests(): DoorTests | undefined
}

type DoorView = Doors['doors'][number]
type Place = Pick<DoorView, 'open' | 'why' | 'fix' | 'url' | 'addresses' | 'agents'>

const OPEN_PUBLIC = 'set public.port and public.url in config.yaml, and start the node again (docs/doors.md)'

/** The ways by which others buy, and the address of each agent. */
export function doorPlaces({ host, registry, publicUrl }: PlacesDeps): Record<Door, Place> {
  const url = publicUrl()
  const sold = registry.list().filter(({ definition, lacks }) => definition.paused !== true && lacks === undefined)
  // An agent that is sold on channels only is sold to peers only.
  const soldToAll = sold.filter(({ definition }) => definition.price !== undefined)
  type Sold = typeof sold
  type Way = { url: string; stream_url?: string }
  const ways = (agents: Sold, way: (id: string) => Way) =>
    agents.map(({ id, definition }) => ({ agent_id: id, agent_name: definition.name, ...way(id) }))
  const agentsAt = (way: (id: string) => Way) => ways(soldToAll, way)
  const closed: Place = { open: false, why: 'public.port is not set', fix: OPEN_PUBLIC, agents: [] }
  const addresses = host.addresses()
  const silent = { why: 'the node listens at no address', fix: 'see stoa doctor, Peer port' }
  return {
    libp2p: {
      open: addresses.length > 0,
      ...(addresses.length === 0 && silent),
      addresses,
      agents: ways(sold, peerUrl),
    },
    http:
      url === undefined
        ? closed
        : {
            ...{ open: true, url: `${url}/x402` },
            agents: agentsAt((id) => ({ url: `${url}/x402/${id}`, stream_url: `${url}/x402/${id}/stream` })),
          },
    a2a:
      url === undefined
        ? closed
        : { open: true, url: `${url}/a2a`, agents: agentsAt((id) => ({ url: `${url}/a2a/${id}` })) },
    mcp:
      url === undefined ? closed : { open: true, url: `${url}/mcp`, agents: agentsAt(() => ({ url: `${url}/mcp` })) },
  }
}

/** Where others buy from this node, what was sold there, and the door by which the programs of its operator buy. */
export async function doorsOf(deps: DoorsDeps): Promise<Doors> {
  const places = doorPlaces(deps)
  const [{ doors }, openai] = await Promise.all([deps.earnings.stats({ days: 0 }), openAiDoor(deps)])
  const { url, needsToken } = deps.localApi()
  const tests = deps.tests()
  return {
    doors: doors.map(({ door, ...sums }) => ({ door, ...places[door], ...sums })),
    openai,
    api: { ...(url !== undefined && { url }), needs_token: needsToken },
    ...(tests !== undefined && { tests }),
  }
}

async function openAiDoor({ config: { openai }, localApi, tokens }: DoorsDeps): Promise<Doors['openai']> {
  const { url } = localApi()
  const spent = await tokens.record(OPENAI_TOKEN.id)
  const closed = !openai.enabled
    ? { why: 'openai_door is not set', fix: 'set openai_door: true in config.yaml, and start the node again' }
    : { why: 'the local API is off', fix: 'start the node with its API' }
  const isOpen = openai.enabled && url !== undefined
  return {
    open: isOpen,
    ...(isOpen ? { url: `${url}/v1` } : closed),
    max_price: formatPrice(openai.maxPriceAtomic),
    daily_budget: formatPrice(openai.dailyBudgetAtomic),
    spent: spent?.spent ?? '0',
    spent_today: spent?.spent_today ?? '0',
  }
}

/** What a command of another node names. */
function peerUrl(id: string): { url: string } {
  return { url: id }
}
