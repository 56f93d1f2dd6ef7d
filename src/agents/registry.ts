import { CodedError } from '../lib/errors.ts'
import { createLane } from '../lib/lane.ts'
import type { AgentDefinition } from '../schema/agent.ts'
import { agentId } from './agent-id.ts'
import { type HostedAgent, hostAgent } from './hosted-agent.ts'
import { AgentError, type AgentRuntime, notRunnable } from './runtime.ts'

export interface Registry {
  /**
   * Adds an agent or replaces the one of the same name, whose running tasks end as they began. `keepBroken`: also keep
   * an agent that can never run, with the reason as its notice.
   * @throws AgentError if its model is not understood; CodedError 'AGENTS_TOO_MANY'
   */
  register(definition: AgentDefinition, options?: { keepBroken: boolean }): Promise<HostedAgent>
  /** Builds an agent that is ready to run, without registering it. @throws AgentError */
  sketch(definition: AgentDefinition): Promise<HostedAgent>
  /** Names the agents that will be registered soon. Replaces the names of the last call. */
  expect(definitions: readonly AgentDefinition[]): void
  /** The named agents that are not registered yet. */
  expected(): ExpectedAgent[]
  remove(id: string): boolean
  get(id: string): HostedAgent | undefined
  list(): HostedAgent[]
}

type ExpectedAgent = { id: string; definition: AgentDefinition }

type RegistryOptions = { sellerId: string; agentsMax: number }
type RegistryDeps = {
  createRuntime(definition: AgentDefinition): Promise<AgentRuntime>
  agents?: Map<string, HostedAgent>
  /** The agents that will be registered soon, by id. */
  expected?: Map<string, AgentDefinition>
}

export function createRegistry(options: RegistryOptions, deps: RegistryDeps): Registry {
  const { agents = new Map<string, HostedAgent>(), expected = new Map<string, AgentDefinition>() } = deps
  // The later registration of the same name wins, and the maximum is never exceeded.
  const inTurn = createLane()

  async function add(definition: AgentDefinition, keepBroken: boolean): Promise<HostedAgent> {
    const id = agentId(options.sellerId, definition.name)
    if (!agents.has(id) && agents.size >= options.agentsMax) {
      throw new CodedError('AGENTS_TOO_MANY', `this node hosts at most ${options.agentsMax} agents: remove one first`)
    }
    const runtime = await deps.createRuntime(definition).catch((error: unknown) => {
      if (keepBroken && error instanceof AgentError) return notRunnable('none', error, 'part')
      throw error
    })
    const agent = hostAgent(id, definition, runtime)
    agents.set(id, agent)
    expected.delete(id)
    return agent
  }

  return {
    register: (definition, { keepBroken } = { keepBroken: false }) => inTurn(() => add(definition, keepBroken)),
    async sketch(definition) {
      const id = agentId(options.sellerId, definition.name)
      return hostAgent(id, definition, await deps.createRuntime(definition))
    },
    expect(definitions) {
      expected.clear()
      for (const definition of definitions) expected.set(agentId(options.sellerId, definition.name), definition)
    },
    expected: () => [...expected].flatMap(([id, definition]) => (agents.has(id) ? [] : { id, definition })),
    remove: (id) => agents.delete(id),
    get: (id) => agents.get(id),
    list: () => [...agents.values()],
  }
}
