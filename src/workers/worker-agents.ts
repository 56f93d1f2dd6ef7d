import { type HostedAgent, hostAgent } from '../agents/hosted-agent.ts'
import { type AgentRuntime, cannotRun } from '../agents/runtime.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import type { AgentDefinition } from '../schema/agent.ts'

type WorkerAgentsDeps = {
  createRuntime(definition: AgentDefinition): Promise<AgentRuntime>
  logger: Logger
}

/** The seller ends a run at its limit. If it does not, the worker ends it this much later, which covers different clocks. */
const SELLER_FIRST_SECONDS = 10

/** Limits of one run, which the seller decides. */
type RunLimits = { timeoutSeconds: number; outputBytesMax: number }

/** The agents that this machine runs for a seller. */
export interface WorkerAgents {
  list(): { name: string; readsHistory: boolean }[]
  /** The agent with the limits of its seller. @throws AgentError if it is not one of these */
  get(name: string, limits: RunLimits): Promise<HostedAgent>
}

/** Agents that cannot run are left out, with a warning. */
export async function openWorkerAgents(
  definitions: readonly AgentDefinition[],
  { createRuntime, logger }: WorkerAgentsDeps,
): Promise<WorkerAgents> {
  const agents = new Map<string, HostedAgent>()

  async function open(definition: AgentDefinition): Promise<HostedAgent> {
    return hostAgent(definition.name, definition, await createRuntime(definition))
  }

  for (const definition of definitions) {
    const { name } = definition
    const agent = await open(definition).catch((error: unknown) => reasonOf(error))
    const problem = typeof agent === 'string' ? agent : problemOf(agent)
    if (problem !== undefined) logger.warn({ agent_name: name, reason: problem }, 'this agent is not offered')
    else if (typeof agent !== 'string') agents.set(name, agent)
  }
  return {
    list: () => Array.from(agents, ([name, { readsHistory }]) => ({ name, readsHistory })),
    async get(name, { timeoutSeconds, outputBytesMax }) {
      const agent = agents.get(name)
      if (agent === undefined) throw cannotRun('this worker has no such agent')
      const { definition } = agent
      const seconds = timeoutSeconds + SELLER_FIRST_SECONDS
      if (definition.timeout_seconds === seconds && definition.output_bytes_max === outputBytesMax) return agent
      const limited = { ...definition, timeout_seconds: seconds, output_bytes_max: outputBytesMax }
      const opened = await open(limited)
      agents.set(name, opened)
      return opened
    },
  }
}

function problemOf({ definition, lacks, notice }: HostedAgent): string | undefined {
  if (definition.worker !== undefined) return '`worker: true` is for the seller: say here what runs the agent'
  if (definition.paused === true) return 'it is paused'
  if (definition.max_price !== undefined) return 'max_price: a worker has no wallet and buys nothing'
  return lacks === undefined ? undefined : (notice ?? 'it cannot run')
}
