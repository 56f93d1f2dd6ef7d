import type { Clock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { Catalog } from '../listings/catalog.ts'
import { createOperateAgents, type OperateAgents } from '../selling/agent-admin.ts'
import type { StoaNode } from './api.ts'
import type { Foundation } from './foundation.ts'
import type { Selling } from './selling.ts'

/** The agents of this node for its operator. `register` hosts a new agent. */
export function createOwnAgentsApi(deps: {
  clock: Clock
  catalog: Pick<Catalog, 'resolve'>
  siblings: Pick<Foundation['siblings'], 'agents' | 'unlike'>
  selling: Pick<Selling, 'agents' | 'registry' | 'functions'>
}): { ownAgents: OperateAgents; register: StoaNode['registerAgent'] } {
  const { clock, catalog, selling, siblings } = deps
  const { agents, registry, functions } = selling
  const isListed = (id: string) => catalog.resolve(id) !== undefined
  return {
    ownAgents: createOperateAgents({
      ...{ clock, agents, registry, isListed },
      ...{ soldElsewhere: siblings.agents, unlike: siblings.unlike },
    }),
    async register(definition, { persist = true, run } = {}) {
      const id = await functions.register(definition, run, () => agents.register(definition, { persist }))
      const listing = catalog.resolve(id)
      if (listing === undefined) throw new CodedError('LISTING_INVALID', `${definition.name} could not be listed`)
      const places = siblings.unlike(definition.name)
      return { ...listing, ...(places.length > 0 && { differs_at: places }) }
    },
  }
}
