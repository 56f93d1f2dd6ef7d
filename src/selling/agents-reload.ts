import { isDeepStrictEqual } from 'node:util'
import { agentId } from '../agents/agent-id.ts'
import type { HostedAgent } from '../agents/hosted-agent.ts'
import type { Registry } from '../agents/registry.ts'
import { entryOf } from '../config/agents-fields.ts'
import type { StoredAgents } from '../config/agents-yaml.ts'
import { ConfigError, quote } from '../config/config-error.ts'
import { CodedError, reasonOf } from '../lib/errors.ts'
import type { AgentDefinition } from '../schema/agent.ts'
import type { OwnAgents } from './hosted-agents.ts'

export type ReloadDeps = {
  sellerId: string
  /** The most agents that this node hosts. */
  agentsMax: number
  registry: Pick<Registry, 'get' | 'list'>
  agents: Pick<OwnAgents, 'register' | 'isStored' | 'check' | 'refresh' | 'drop'>
  /** Reads agents.yaml. @throws ConfigError */
  readFile(): Promise<StoredAgents>
}

/** What a reload changes, by agent id. */
type ReloadResult = {
  added: string[]
  changed: string[]
  /** The agents as they were. */
  removed: HostedAgent[]
  unchanged: number
  /** Names of the file that belong to agents which are not from the file: those stay as they are. */
  kept: string[]
}

type Plan = {
  added: AgentDefinition[]
  changed: { definition: AgentDefinition; before: HostedAgent }[]
  removed: HostedAgent[]
  unchanged: HostedAgent[]
  kept: string[]
}

/**
 * Makes the agents of this node those of agents.yaml.
 *
 * 1. Read the whole file.
 * 2. Compare it with the agents of this node that came from the file.
 * 3. Check each new and each changed agent. Up to here, an error changes nothing.
 * 4. Change, remove and add agents. If one of these steps fails, undo the steps before it.
 *
 * An agent that did not change is not listed again. Running calls end as they began.
 *
 * @throws ConfigError with file, line and agent of each problem; CodedError 'AGENTS_TOO_MANY'; an error of the store
 */
export async function reloadAgents(deps: ReloadDeps): Promise<ReloadResult> {
  const file = await deps.readFile()
  const plan = planOf(file, deps)
  await check(plan, file, deps)
  return apply(plan, deps)
}

function planOf(file: StoredAgents, { sellerId, registry, agents }: ReloadDeps): Plan {
  const plan: Plan = { added: [], changed: [], removed: [], unchanged: [], kept: [] }
  const inFile = new Set<string>()
  for (const definition of file.agents) {
    const id = agentId(sellerId, definition.name)
    inFile.add(id)
    const before = registry.get(id)
    if (before === undefined) plan.added.push(definition)
    else if (!agents.isStored(id)) plan.kept.push(definition.name)
    else if (isDeepStrictEqual(entryOf(definition), entryOf(before.definition))) plan.unchanged.push(before)
    else plan.changed.push({ definition, before })
  }
  plan.removed = registry.list().filter(({ id }) => agents.isStored(id) && !inFile.has(id))
  return plan
}

async function check(plan: Plan, file: StoredAgents, deps: ReloadDeps): Promise<void> {
  const { added, changed, removed, unchanged } = plan
  // An editor that is about to write the file may have emptied it, and a mount may be gone.
  if (!file.hasList && removed.length > 0) {
    throw new ConfigError(
      `${file.path}: the file is empty or missing, and this node sells ${removed.length === 1 ? 'an agent' : `${removed.length} agents`} of it: write "agents: []" to sell none of them`,
    )
  }
  const count = deps.registry.list().length - removed.length + added.length
  if (count > deps.agentsMax) {
    throw new CodedError(
      'AGENTS_TOO_MANY',
      `with ${file.path} this node would host ${count} agents, and ${deps.agentsMax} are the most: remove some from the file`,
    )
  }
  const problems: string[] = []
  // An agent that sells on must not lose its instructions.
  const told = unchanged.filter(({ definition, lacks }) => definition.instructions_file && lacks === undefined)
  const names = new Set(
    [...added, ...[...changed, ...told].map(({ definition }) => definition)].map(({ name }) => name),
  )
  for (const definition of file.agents.filter(({ name }) => names.has(name))) {
    try {
      await deps.agents.check(definition)
    } catch (error) {
      problems.push(`${file.path}:${file.lineOf(definition.name) ?? 1}: ${quote(definition.name)}: ${reasonOf(error)}`)
    }
  }
  if (problems.length > 0) throw new ConfigError(problems)
}

async function apply(plan: Plan, { sellerId, agents }: ReloadDeps): Promise<ReloadResult> {
  const undo: (() => Promise<unknown>)[] = []
  // A key that is missing here is shown as at the start, and the agent is not sold.
  const host = (definition: AgentDefinition) =>
    agents.register(definition, { persist: false, stored: true, keepBroken: true })
  const result: ReloadResult = { added: [], changed: [], removed: [], unchanged: 0, kept: plan.kept }
  try {
    for (const { definition, before } of plan.changed) {
      result.changed.push(await host(definition))
      undo.push(() => host(before.definition))
    }
    for (const before of plan.removed) {
      undo.push(() => host(before.definition))
      await agents.drop(before.id)
      result.removed.push(before)
    }
    for (const definition of plan.added) {
      result.added.push(await host(definition))
      undo.push(() => agents.drop(agentId(sellerId, definition.name)))
    }
    for (const { id, definition, lacks } of plan.unchanged) {
      const isStale = definition.instructions_file !== undefined || (lacks !== undefined && lacks !== 'worker')
      if (isStale && (await agents.refresh(id))) result.changed.push(id)
      else result.unchanged += 1
    }
  } catch (error) {
    for (const step of undo.toReversed()) await step().catch(() => {})
    throw error
  }
  return result
}
