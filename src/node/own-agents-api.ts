import type { Clock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { Catalog } from '../listings/catalog.ts'
import { createOperateAgents, type OperateAgents } from '../selling/agent-admin.ts'
import type { StoaNode } from './api.ts'
import type { Selling } from './selling.ts'

/** The agents of this node for its operator. `register` hosts a new agent. */
export function createOwnAgentsApi(deps: {
  clock: Clock
  catalog: Pick<Catalog, 'resolve'>
  selling: Pick<Selling, 'agents' | 'registry' | 'functions'>
}): { ownAgents: OperateAgents; register: StoaNode['registerAgent'] } {
  const { clock, catalog, selling } = deps
  const { agents, registry, functions } = selling
  const isListed = (id: string) => catalog.resolve(id) !== undefined
  return {
    ownAgents: createOperateAgents({ clock, agents, registry, isListed }),
    async register(definition, { persist = true, run } = {}) {
      const id = await functions.register(definition, run, () => agents.register(definition, { persist }))
      const listing = catalog.resolve(id)
      if (listing === undefined) throw new CodedError('LISTING_INVALID', `${definition.name} could not be listed`)
      return listing
    },
  }
}
