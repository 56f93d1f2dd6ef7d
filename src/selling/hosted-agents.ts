import { agentId } from '../agents/agent-id.ts'
import type { HostedAgent } from '../agents/hosted-agent.ts'
import type { Registry } from '../agents/registry.ts'
import type { RunSlots } from '../agents/run-slots.ts'
import { AgentError } from '../agents/runtime.ts'
import type { Clock } from '../lib/clock.ts'
import type { Replica } from '../listings/replica.ts'
import type { Asset } from '../payments/assets.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { ServedAgent, ServedAgents } from '../protocols/x402/exchange.ts'
import { type AgentDefinition, priceOf } from '../schema/agent.ts'
import type { ListingRecord } from '../schema/listing.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Exchanges } from '../store/exchanges.ts'
import { DEFAULT_STREAMING, isPaid, listingOf } from './agent-listing.ts'
import { hostedAgent, type OwnCall, runOwnAgent, runWithHistory } from './own-runs.ts'

type OwnAgentsDeps = {
  sellerId: string
  clock: Clock
  registry: Registry
  replica: Replica
  exchanges: Exchanges
  slots: RunSlots
  asset: Asset
  payTo: Hex
  /** The terms of payment channels to this node. Undefined: it offers none. */
  channel?: (() => Promise<ListingRecord['channel']>) | undefined
  sellerName?: string | undefined
  /** True if an agent has bought so much for unpaid runs that its payments are settled before it runs. */
  isAhead(agentId: string): Promise<boolean>
  /** Returns the agent's token on the chain (ERC-8004). */
  tokenOf(agentId: string): Promise<string | undefined>
  /**
   * Writes a definition to agents.yaml, so that it survives a restart (D12). @returns false for one that cannot be
   * written, such as a function
   */
  persist(definition: AgentDefinition): Promise<boolean>
  forget(name: string): Promise<unknown>
  /** Called before all agents leave the market, because the node stops. */
  leave?(): void
  /** The ids of the agents that other processes of this seller sell. */
  soldElsewhere(): ReadonlySet<string>
  /** True if a worker of another process is free for a run of this agent. Counts the run there. */
  takesElsewhere(agentName: string): boolean
  /** Tells the other processes of this seller which agents this one sells now. */
  tellOthers(): Promise<void>
}

/** The agents of this node: registers and lists them, and runs them for peers and for the node's own API. */
export interface OwnAgents {
  /**
   * Registers an agent and lists it on the market unless it is paused. Replaces an agent of the same name.
   *
   * @param options.stored the agent is in agents.yaml already
   * @param options.keepBroken also keep an agent that cannot run, off the market, with the reason as its notice
   * @returns the agent's id
   * @throws AgentError 'AGENT_NOT_RUNNABLE' for an agent that cannot run, unless `keepBroken` is set
   */
  register(
    definition: AgentDefinition,
    options: { persist: boolean; stored?: boolean; keepBroken?: boolean },
  ): Promise<string>
  /** True if the agent is in agents.yaml, as far as this node has read or written the file. */
  isStored(id: string): boolean
  /**
   * Changes nothing. @throws AgentError 'AGENT_NOT_RUNNABLE' for an agent that lacks a part, CodedError
   * 'LISTING_INVALID' for one that no other node would list
   */
  check(definition: AgentDefinition): Promise<void>
  /**
   * Makes an agent anew from what its definition names, such as a program that was missing. Publishes nothing unless it
   * can run now and could not before. @returns true in that case
   */
  refresh(id: string): Promise<boolean>
  /** Removes an agent that is no longer in agents.yaml from the market. Its running calls end as they began. */
  drop(id: string): Promise<void>
  /** Removes an agent from the market and from agents.yaml. Its running calls end as they began. */
  remove(id: string): Promise<void>
  /** Runs an agent for its operator. The run is unpaid and not recorded, and works for paused agents too. */
  test(id: string, call: { input: string; signal: AbortSignal }): Promise<string>
  /** Runs an agent that is not hosted, without hosting it. @throws AgentError 'AGENT_NOT_RUNNABLE' */
  tryOut(definition: AgentDefinition, call: { input: string; signal: AbortSignal }): Promise<string>
  served(id: string): ServedAgent | undefined
  /** Publishes the agent's listing again, if the agent is on the market. */
  relist(id: string): Promise<void>
  /** Publishes the listings of this process again, because payment channels are offered or not offered any longer. */
  followChannels(): Promise<void>
  /** Puts agents that workers run on the market or takes them off, as workers have come or gone. */
  followWorkers(): Promise<void>
  /** Runs an own agent for the node's own API, unpaid (D17). */
  run(id: string, call: OwnCall): Promise<string>
  /** Takes all agents of this process off the market that no other process goes on selling. */
  delistAll(soldElsewhere: ReadonlySet<string>): Promise<void>
  /** Delists listings of this node that nobody sells, such as agents removed while the node was down. */
  delistUnknown(): Promise<void>
}

export function createOwnAgents(deps: OwnAgentsDeps): OwnAgents {
  const { registry, replica } = deps
  /** The tokens of hosted agents. Read whenever an agent is registered or listed, because every served call needs it. */
  const tokens = new Map<string, string>()
  /** Agents of agents.yaml. Others live as long as the process. */
  const stored = new Set<string>()

  async function readToken(id: string): Promise<string | undefined> {
    const token = await deps.tokenOf(id)
    if (token !== undefined) tokens.set(id, token)
    return token
  }

  async function withdraw(id: string): Promise<void> {
    registry.remove(id)
    stored.delete(id)
    await deps.tellOthers()
    await stopSelling(id)
  }

  /** Takes an agent off the market, or leaves its listing to the processes of this seller that go on selling it. */
  async function stopSelling(id: string, soldElsewhere = deps.soldElsewhere()): Promise<void> {
    if (soldElsewhere.has(id)) await replica.leave(id)
    else await replica.delist(id)
  }

  async function reinstate({ definition }: HostedAgent): Promise<void> {
    await offer(await registry.register(definition, { keepBroken: true }))
  }

  async function offer(agent: HostedAgent): Promise<void> {
    // A process that stops takes an agent off the market, unless it knows another that sells it.
    await deps.tellOthers()
    if (agent.definition.paused !== true && agent.lacks === undefined) {
      const channel = isPaid(agent) ? await deps.channel?.() : undefined
      await replica.publish(listingOf(agent, { channel, token_id: await readToken(agent.id) }, deps))
    } else await stopSelling(agent.id)
  }

  function runOnce(agent: HostedAgent, { input, signal }: { input: string; signal: AbortSignal }): Promise<string> {
    return deps.slots.run(undefined, agent.id, () => agent.run({ input, callerId: 'local', signal, history: [] }))
  }

  const hosted = (id: string) => hostedAgent(registry, id)

  return {
    async register(definition, { persist, stored: isStored = false, keepBroken = false }) {
      const id = agentId(deps.sellerId, definition.name)
      // Before the agent is registered, because it serves calls from then on.
      await readToken(id)
      const before = registry.get(id)
      const agent = await registry.register(definition, { keepBroken })
      try {
        if (agent.lacks !== undefined && !keepBroken)
          throw new AgentError('AGENT_NOT_RUNNABLE', agent.notice ?? 'this agent cannot run')
        await offer(agent)
        if (persist ? await deps.persist(definition) : isStored) stored.add(id)
        else stored.delete(id)
      } catch (error) {
        // Undo a registration that failed halfway: the agent would vanish at a restart. The replaced agent keeps
        // selling.
        await (before === undefined ? withdraw(agent.id) : reinstate(before)).catch(() => {})
        throw error
      }
      return agent.id
    },
    isStored: (id) => stored.has(id),
    check: (definition) => checkAgent(definition, deps),
    async refresh(id) {
      const before = hosted(id)
      const agent = await registry.register(before.definition, { keepBroken: true })
      const isBack = before.lacks !== undefined && agent.lacks === undefined
      if (isBack) await offer(agent)
      return isBack
    },
    drop: withdraw,
    async remove(id) {
      const { name } = hosted(id).definition
      await deps.forget(name)
      await withdraw(id)
    },
    test: async (id, call) => runOnce(hosted(id), call),
    async tryOut(definition, call) {
      const agent = await registry.sketch(definition)
      if (agent.lacks !== undefined) {
        throw new AgentError('AGENT_NOT_RUNNABLE', agent.notice ?? 'this agent cannot run')
      }
      return runOnce(agent, call)
    },
    served(id) {
      const agent = registry.get(id)
      if (agent === undefined || agent.definition.paused === true || agent.lacks !== undefined) return undefined
      return servedAgent(agent, tokens.get(id) ?? '', deps)
    },
    relist: (id) => offer(hosted(id)),
    async followChannels() {
      for (const agent of registry.list()) if (isPaid(agent) && replica.signs(agent.id)) await offer(agent)
    },
    async followWorkers() {
      for (const agent of registry.list().filter(({ definition }) => definition.worker !== undefined)) {
        const isOffered = agent.definition.paused !== true && agent.lacks === undefined
        // A listing by another process alone does not say that the agent is sold here. That process may have died.
        const isListed = isOffered ? replica.signs(agent.id) : replica.get(agent.id) !== undefined
        if (isOffered !== isListed) await offer(agent)
      }
    },
    run: (id, call) => runOwnAgent(id, call, { ...deps, agents: registry }),
    async delistUnknown() {
      const elsewhere = deps.soldElsewhere()
      // Two processes that pause an agent at the same time leave its listing to each other.
      const isSold = (id: string) => registry.get(id) !== undefined && registry.get(id)?.definition.paused !== true
      const ghosts = replica.own().filter(({ id }) => !isSold(id) && !elsewhere.has(id))
      for (const ghost of ghosts) await replica.delist(ghost.id)
    },
    async delistAll(soldElsewhere) {
      deps.leave?.()
      await Promise.allSettled(registry.list().map(({ id }) => stopSelling(id, soldElsewhere)))
    },
  }
}

/** An agent as the protocols sell it. */
function servedAgent(agent: HostedAgent, tokenId: string, deps: OwnAgentsDeps): ServedAgent {
  const { id, definition, timeoutMs } = agent
  return {
    id,
    amount: priceOf(definition),
    ...(definition.pricing !== undefined && { pricing: definition.pricing }),
    ...(definition.price === undefined && { isOnChannelsOnly: true as const }),
    timeoutMs,
    tokenId,
    streaming: definition.streaming ?? DEFAULT_STREAMING,
    ...(definition.max_price !== undefined && { isAhead: () => deps.isAhead(id) }),
    ...(definition.worker !== undefined && {
      isSoldElsewhere: () => deps.soldElsewhere().has(id),
      isFreeElsewhere: () => deps.slots.wouldWait(id) && deps.takesElsewhere(definition.name),
    }),
    run: (call) => runWithHistory(agent, call, deps.exchanges),
  }
}

/** See {@link OwnAgents} `check`. */
async function checkAgent(definition: AgentDefinition, deps: OwnAgentsDeps): Promise<void> {
  const agent = await deps.registry.sketch(definition)
  if (agent.lacks === 'part') throw new AgentError('AGENT_NOT_RUNNABLE', agent.notice ?? 'this agent cannot run')
  if (definition.paused === true) return
  const channel = isPaid(agent) ? await deps.channel?.() : undefined
  await deps.replica.check(listingOf(agent, { channel }, deps))
}

export function createServedAgents(
  agents: Pick<OwnAgents, 'served'>,
  deps: Pick<OwnAgentsDeps, 'registry' | 'replica' | 'sellerId'> & { trading: { isStopped(): boolean } },
): ServedAgents {
  const { registry, replica, sellerId, trading } = deps
  return {
    find(id) {
      // With a damaged or copied ledger, or a wrong clock, a sale could not be recorded safely.
      if (trading.isStopped()) {
        const reason = 'this seller has stopped selling until its operator repairs it; nobody was charged'
        throw new PeerError('OVERLOADED', reason)
      }
      const agent = agents.served(id)
      const hosted = registry.get(id)
      if (hosted?.lacks === 'worker' && hosted.definition.paused !== true) {
        const reason =
          'no machine that runs this agent is connected to this process of its seller now: nobody was charged, try again later'
        throw new PeerError('OVERLOADED', reason)
      }
      // Agents register one by one after the doors are open. After a crash, our listings are still published then.
      const isExpected = () =>
        replica.get(id)?.seller_id === sellerId || registry.expected().some((one) => one.id === id)
      if (agent === undefined && hosted === undefined && isExpected()) {
        throw new PeerError('OVERLOADED', 'this node has just started and does not offer this agent yet; try again')
      }
      return agent
    },
    offered: () => registry.list().map(({ id }) => id),
    // A paid result is delivered even if selling has stopped since.
    tokenOf: (id) => agents.served(id)?.tokenId,
  }
}
