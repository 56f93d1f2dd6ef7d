import * as z from 'zod'
import type { HostedAgent } from '../agents/hosted-agent.ts'
import type { Registry } from '../agents/registry.ts'
import type { Clock } from '../lib/clock.ts'
import { defined } from '../lib/defined.ts'
import { CodedError } from '../lib/errors.ts'
import type { createLane } from '../lib/lane.ts'
import { AgentDefinition, priceOf, privateFields, runsOwn } from '../schema/agent.ts'
import { operatorFields } from '../schema/limits.ts'
import type { OwnAgent, ReloadedAgents, TestResult, UpdateAgent } from '../schema/own-agent.ts'
import type { ReloadDeps } from './agents-reload.ts'
import type { OwnAgents } from './hosted-agents.ts'

type OperateAgentsDeps = ReloadDeps & {
  registry: Pick<Registry, 'expect'>
  clock: Clock
  agents: Pick<OwnAgents, 'remove' | 'test' | 'tryOut'>
  /**
   * Changes run one after the other. Each starts from the result of the one before: a new price must not undo a pause.
   */
  inTurn: ReturnType<typeof createLane>
  isListed(id: string): boolean
  /** The ids of agents that other processes of this seller sell. */
  soldElsewhere(): ReadonlySet<string>
  /** Where processes run that have other settings for the agent of this name. */
  unlike(name: string): string[]
}

/** The operator's actions on the agents of this node. Each throws CodedError UNKNOWN_AGENT for an unknown id. */
export interface OperateAgents {
  list(): OwnAgent[]
  /**
   * Hosts an agent, and does not write it to agents.yaml. An agent that cannot run is shown with the reason and not sold.
   *
   * @param options.stored the agent is in agents.yaml already (the default), so that `reload` follows its entry
   */
  keep(definition: AgentDefinition, options?: { stored: boolean }): Promise<OwnAgent>
  /**
   * Names the agents that will be hosted soon. Their callers are told to try again until the agents are hosted. Each call
   * replaces the names of the last one.
   */
  expect(definitions: readonly AgentDefinition[]): void
  /**
   * Reads agents.yaml again and takes over what changed in it. Agents that did not come from the file stay.
   *
   * @throws CodedError CONFIG_INVALID, AGENTS_TOO_MANY or an error of the store: then nothing has changed
   */
  reload(): Promise<ReloadedAgents>
  get(id: string): OwnAgent
  /**
   * Changes the agent here, on the market and in agents.yaml. @throws CodedError INVALID_REQUEST, FIELD_NOT_ALLOWED …
   */
  update(id: string, change: UpdateAgent): Promise<OwnAgent>
  setPaused(id: string, paused: boolean): Promise<OwnAgent>
  /** @returns the agent as it was before */
  remove(id: string): Promise<OwnAgent>
  /** Runs the agent once. The run is unpaid and not recorded. */
  test(id: string, task: string, signal: AbortSignal): Promise<TestResult>
  /** Runs an agent that is not hosted yet. Nothing of it is kept. */
  tryOut(definition: AgentDefinition, task: string, signal: AbortSignal): Promise<TestResult>
}

export function createOperateAgents(deps: OperateAgentsDeps): OperateAgents {
  const { registry, agents, clock, inTurn } = deps

  function hosted(id: string): HostedAgent {
    const agent = registry.get(id)
    if (agent !== undefined) return agent
    throw new CodedError('UNKNOWN_AGENT', 'no agent of this node has this id: GET /agents/own lists them')
  }

  function view(agent: HostedAgent): OwnAgent {
    const { id, definition, lacks } = agent
    const isSold = lacks !== undefined && definition.paused !== true && deps.soldElsewhere().has(id)
    const places = deps.unlike(definition.name)
    return {
      ...ownAgent(agent, deps.isListed(id)),
      ...(isSold && { sold_elsewhere: true as const }),
      ...(places.length > 0 && { differs_at: places }),
    }
  }

  /** An agent that is gone, as it was. */
  function gone(before: OwnAgent): OwnAgent {
    const { differs_at: _before, ...removed } = before
    const places = deps.unlike(before.name)
    return { ...removed, ...(places.length > 0 && { differs_at: places }), listed: false }
  }

  async function reload(): Promise<ReloadedAgents> {
    // It reads YAML, which a start without a file must not load.
    const { reloadAgents } = await import('./agents-reload.ts')
    const { added, changed, removed, unchanged, kept } = await reloadAgents(deps)
    const shown = (ids: readonly string[]) => ids.map((id) => view(hosted(id)))
    return {
      added: shown(added),
      changed: shown(changed),
      removed: removed.map((one) => gone(view(one))),
      unchanged,
      kept,
    }
  }

  async function timed(run: () => Promise<string>): Promise<TestResult> {
    const from = clock.now()
    const output = await run()
    return { output, duration_ms: Math.max(0, Math.round(clock.now() - from)) }
  }

  async function replace(id: string, definition: AgentDefinition, keepBroken = true): Promise<OwnAgent> {
    await agents.register(definition, { persist: true, keepBroken })
    return view(hosted(id))
  }

  async function update(id: string, change: UpdateAgent): Promise<OwnAgent> {
    const { definition: before } = hosted(id)
    const { instructions_file: _file, ...withoutFile } = before
    const definition = typeof change.instructions === 'string' ? withoutFile : before
    if (change.model !== undefined && change.model !== null && runsOwn(definition)) {
      throw new CodedError('FIELD_NOT_ALLOWED', 'model: this agent runs what agents.yaml names: change it there')
    }
    const given = Object.entries(change).filter(([, value]) => value !== undefined)
    const merged = Object.entries({ ...definition, ...Object.fromEntries(given) }).filter(([, value]) => value !== null)
    const changed = Object.fromEntries(merged) as AgentDefinition
    const checked = z.safeEncode(AgentDefinition, changed)
    if (!checked.success) throw new CodedError('INVALID_REQUEST', checked.error.issues[0]!.message)
    // The price of an agent that cannot run may change. A new model must be able to run.
    return replace(id, changed, change.model === undefined)
  }

  return {
    list: () => registry.list().map(view),
    keep: (definition, { stored } = { stored: true }) =>
      inTurn(async () => {
        const id = await agents.register(definition, { persist: false, stored, keepBroken: true })
        return view(hosted(id))
      }),
    expect: registry.expect,
    reload: () => inTurn(reload),
    get: (id) => view(hosted(id)),
    update: (id, change) => inTurn(() => update(id, change)),
    setPaused: (id, paused) =>
      inTurn(async () => {
        const { paused: _before, ...definition } = hosted(id).definition
        return replace(id, paused ? { ...definition, paused } : definition)
      }),
    remove: (id) =>
      inTurn(async () => {
        const agent = view(hosted(id))
        await agents.remove(id)
        return gone(agent)
      }),
    async test(id, task, signal) {
      hosted(id)
      return timed(() => agents.test(id, { input: task, signal }))
    },
    tryOut: (definition, task, signal) => timed(() => agents.tryOut(definition, { input: task, signal })),
  }
}

function ownAgent({ id, definition, model, notice, lacks, timeoutMs }: HostedAgent, listed: boolean): OwnAgent {
  return {
    id,
    name: definition.name,
    description: definition.description,
    price: priceOf(definition),
    price_atomic: priceOf(definition).toString(),
    ...defined({ pricing: definition.pricing }),
    ...(definition.price === undefined && { on_channels_only: true as const }),
    ...defined({ max_price: definition.max_price, model: definition.model }),
    runs: model,
    ...privateOf(definition),
    tags: definition.tags ?? [],
    ...defined({ image: definition.image }),
    timeout_seconds: Math.round(timeoutMs / 1000),
    ...defined({ streaming: definition.streaming }),
    paused: definition.paused === true,
    listed,
    runnable: lacks === undefined,
    ...(notice !== undefined && { notice }),
    managed_in_file: operatorFields.some((name) => Object.hasOwn(definition, name)),
  }
}

function privateOf(definition: AgentDefinition): Pick<OwnAgent, keyof typeof privateFields> {
  const names = Object.keys(privateFields) as (keyof typeof privateFields)[]
  return defined(Object.fromEntries(names.map((name) => [name, definition[name]])))
}
