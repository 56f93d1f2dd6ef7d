import type { HostedAgent } from '../agents/hosted-agent.ts'
import type { RunSlots } from '../agents/run-slots.ts'
import { type AgentCall, AgentError, type OnOutput, type RunOrigin } from '../agents/runtime.ts'
import type { Clock } from '../lib/clock.ts'
import type { Exchanges } from '../store/exchanges.ts'

/** Earlier exchanges with the same caller that an agent may read. */
const HISTORY_MAX = 20

export type OwnCall = {
  input: string
  correlationId: string
  /** The caller whose history the agent may read. */
  callerId: string
  signal: AbortSignal
  onOutput?: OnOutput
  /** Identifies the run. Default: the correlation id. */
  origin?: RunOrigin
  /** Called when the run has begun to cost money. */
  onCommitted?: () => void
}

type OwnRunsDeps = {
  agents: { get(id: string): HostedAgent | undefined }
  slots: RunSlots
  exchanges: Exchanges
  clock: Clock
}

/** Runs an agent of this node for its own API, unpaid (D17). @throws AgentError */
export async function runOwnAgent(id: string, call: OwnCall, deps: OwnRunsDeps): Promise<string> {
  const { agents, slots, exchanges, clock } = deps
  const { correlationId, ...given } = call
  const agent = hostedAgent(agents, id)
  const createdAt = clock.now()
  const own = { origin: { id: correlationId, isPaid: false, hops: 0 }, ...given }
  const output = await slots.run(undefined, id, () => runWithHistory(agent, own, exchanges))
  const durationMs = clock.now() - createdAt
  const { input, callerId } = call
  await exchanges.record({ agentId: id, callerId, correlationId, input, output, createdAt, durationMs })
  return output
}

export async function runWithHistory(
  agent: HostedAgent,
  call: Omit<AgentCall, 'history'>,
  exchanges: Pick<Exchanges, 'history'>,
): Promise<string> {
  const history = agent.readsHistory ? await exchanges.history(agent.id, call.callerId, HISTORY_MAX) : []
  return agent.run({ ...call, history })
}

export function hostedAgent(agents: OwnRunsDeps['agents'], id: string): HostedAgent {
  const agent = agents.get(id)
  if (agent !== undefined) return agent
  throw new AgentError('AGENT_NOT_RUNNABLE', 'this agent is listed, but not running on this node')
}
