import type { Clock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import { createLane } from '../lib/lane.ts'
import type { Catalog } from '../listings/catalog.ts'
import { createOperateAgents, type OperateAgents } from '../selling/agent-admin.ts'
import type { StoaNode } from './api.ts'
import type { Foundation } from './foundation.ts'
import { AGENTS_MAX, type Selling } from './selling.ts'

/** The agents of this node for its operator. `register` hosts a new agent. */
export function createOwnAgentsApi(deps: {
  clock: Clock
  identity: Pick<Foundation['identity'], 'peerId'>
  catalog: Pick<Catalog, 'resolve'>
  siblings: Pick<Foundation['siblings'], 'agents' | 'unlike'>
  selling: Pick<Selling, 'agents' | 'registry' | 'functions' | 'readFile'>
}): { ownAgents: OperateAgents; register: StoaNode['registerAgent'] } {
  const { clock, catalog, selling, siblings, identity } = deps
  const { agents, registry, functions } = selling
  const isListed = (id: string) => catalog.resolve(id) !== undefined
  const inTurn = createLane()
  return {
    ownAgents: createOperateAgents({
      ...{ clock, agents, registry, isListed, inTurn },
      ...{ sellerId: identity.peerId, agentsMax: AGENTS_MAX, readFile: selling.readFile },
      ...{ soldElsewhere: siblings.agents, unlike: siblings.unlike },
    }),
    async register(definition, { persist = true, stored = false, run } = {}) {
      // Nothing is changed for an agent that has no listing to return.
      if (definition.paused === true) {
        const fix = 'leave out `paused`, or host it with ownAgents.keep'
        throw new CodedError(
          'INVALID_REQUEST',
          `${definition.name} is paused, and a paused agent is not listed: ${fix}`,
        )
      }
      const id = await inTurn(() =>
        functions.register(definition, run, () => agents.register(definition, { persist, stored })),
      )
      const listing = catalog.resolve(id)
      if (listing === undefined) throw new CodedError('LISTING_INVALID', `${definition.name} could not be listed`)
      const places = siblings.unlike(definition.name)
      return { ...listing, ...(places.length > 0 && { differs_at: places }) }
    },
  }
}
