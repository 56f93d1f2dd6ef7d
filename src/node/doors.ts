import type { Registry } from '../agents/registry.ts'
import type { Earnings } from '../ledger/stats.ts'
import type { Host } from '../p2p/host.ts'
import type { Door } from '../schema/door.ts'
import type { Doors } from '../schema/doors.ts'

type DoorsDeps = {
  host: Pick<Host, 'addresses'>
  registry: Pick<Registry, 'list'>
  earnings: Earnings
  /** Where strangers buy over HTTP. Undefined: nowhere. */
  publicUrl(): string | undefined
}

type DoorView = Doors['doors'][number]
type Place = Pick<DoorView, 'open' | 'url' | 'addresses' | 'agents'>

/** Where others buy from this node, and what was sold there. */
export async function doorsOf({ host, registry, earnings, publicUrl }: DoorsDeps): Promise<Doors> {
  const url = publicUrl()
  // What is sold on channels only is sold to peers only.
  const sold = registry
    .list()
    .filter(({ definition: { paused, price }, lacks }) => paused !== true && lacks === undefined && price !== undefined)
  const agentsAt = (place: (id: string) => { url: string; stream_url?: string }) =>
    sold.map(({ id, definition }) => ({ agent_id: id, agent_name: definition.name, ...place(id) }))
  const closed: Place = { open: false, agents: [] }
  const addresses = host.addresses()
  const places: Record<Door, Place> = {
    libp2p: { open: addresses.length > 0, addresses, agents: [] },
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
    mcp: url === undefined ? closed : { open: true, url: `${url}/mcp`, agents: [] },
  }
  const { doors } = await earnings.stats({ days: 0 })
  return { doors: doors.map(({ door, ...sums }) => ({ door, ...places[door], ...sums })) }
}
