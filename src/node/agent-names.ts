import type { HostedAgent } from '../agents/hosted-agent.ts'
import type { NamesOf } from '../ledger/order-record.ts'
import type { Catalog } from '../listings/catalog.ts'
import type { Replica } from '../listings/replica.ts'

/** What agents are called: as they are listed, or as this node configures them while they are off the market. */
export function createAgentNames(
  { resolve }: Pick<Catalog, 'resolve'>,
  { hosted, sellerName }: { hosted: ReadonlyMap<string, HostedAgent>; sellerName: string | undefined },
): NamesOf {
  return (agentId) => {
    const listed = resolve(agentId)
    if (listed !== undefined) return listed
    const own = hosted.get(agentId)
    return own && { name: own.definition.name, seller_name: sellerName }
  }
}

/** What peers call themselves in their listings. */
export function createPeerNames(replica: Pick<Replica, 'all'>) {
  return (peerIds: ReadonlySet<string>): ReadonlyMap<string, string> => {
    const names = new Map<string, string>()
    if (peerIds.size === 0) return names
    for (const { seller_id: id, seller_name: name } of replica.all()) {
      if (name !== undefined && peerIds.has(id)) names.set(id, name)
    }
    return names
  }
}
