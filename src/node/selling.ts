import type { AgentPurchases } from '../agents/agent-purchase.ts'
import { createRuntimeFactory } from '../agents/create-runtime.ts'
import { createFunctionAgents, type FunctionAgents } from '../agents/function-agent.ts'
import type { HostedAgent } from '../agents/hosted-agent.ts'
import { createRegistry } from '../agents/registry.ts'
import { RunSlots } from '../agents/run-slots.ts'
import { addAgentToFile, readStoredAgents, removeAgentFromFile } from '../config/agents-yaml.ts'
import type { Config } from '../config/config.ts'
import type { Secrets } from '../config/secrets.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Host } from '../p2p/host.ts'
import { didOfPeer } from '../p2p/identity.ts'
import { createChallengeSeal } from '../payments/challenge-seal.ts'
import { exposureLimits } from '../payments/exposure.ts'
import { withPause } from '../payments/facilitator-pause.ts'
import type { AgentDefinition } from '../schema/agent.ts'
import type { ListingRecord } from '../schema/listing.ts'
import { createOwnAgents, createServedAgents, type OwnAgents } from '../selling/hosted-agents.ts'
import { dataFile } from '../store/data-dir.ts'
import { WorkerPool } from '../workers/worker-pool.ts'
import { ChannelOffer, type ChannelOfferDeps } from './channel-offer.ts'
import type { Foundation } from './foundation.ts'
import type { Listings } from './market.ts'
import { type ChannelParts, createSales } from './sales.ts'

/** Agents that a node hosts. */
export const AGENTS_MAX = 64
/** Calls that wait for a run slot (D36). */
const RUNS_WAITING_MAX = 256

type SellingDeps = Pick<
  Foundation,
  | 'identity'
  | 'wallet'
  | 'asset'
  | 'trading'
  | 'facilitator'
  | 'chain'
  | 'transactions'
  | 'clock'
  | 'logger'
  | 'pace'
  | 'fetch'
  | 'random'
  | 'siblings'
  | 'tail'
> &
  Hosting & {
    host: Pick<Host, 'handle'>
    ledger: Pick<Ledger, 'payments' | 'exchanges' | 'deferred' | 'sellerChannels' | 'listen'>
    listings: Pick<Listings, 'replica'>
    agentPurchases: AgentPurchases
    /** Undefined: this node takes no payment channels. */
    channelParts?: (ChannelParts & Pick<ChannelOfferDeps, 'trouble'>) | undefined
  }

/**
 * The agents of this node, by id, the slots in which they run, for peers and for the node's own API, and the machines
 * elsewhere that run some of them.
 */
type Hosting = {
  hosted: Map<string, HostedAgent>
  /** The agents that the start names, until it has hosted all of them. */
  expected: Map<string, AgentDefinition>
  /** True while the start has still to host this agent. */
  isComing(id: string): boolean
  /** True while an agent of this node is not on the market only because the node starts or stops. */
  isAway(id: string): boolean
  /** Notes that the node stops, before its agents leave the market. */
  leave(): void
  /** True while the start has still to host agents. */
  isStarting(): boolean
  slots: RunSlots
  workers: WorkerPool
}

export function createHosting({ seller }: Config, { clock, logger }: Pick<Foundation, 'clock' | 'logger'>): Hosting {
  const hosted = new Map<string, HostedAgent>()
  const workers = new WorkerPool({ clock, logger })
  /** A run that waits for a worker takes no slot from other agents, and its time limit has not begun. */
  function roomFor(id: string): number | undefined {
    const agent = hosted.get(id)
    if (agent?.definition.worker !== undefined) return workers.room(agent.definition.name)
    return agent?.definition.runs_max
  }
  const slots = new RunSlots({ concurrentMax: seller.concurrentRunsMax, waitingMax: RUNS_WAITING_MAX, roomFor })
  workers.onChange(() => slots.wake())
  const expected = new Map<string, AgentDefinition>()
  const isComing = (id: string) => expected.has(id) && !hosted.has(id)
  let hasLeft = false
  return {
    ...{ hosted, expected, slots, workers, isComing },
    isAway: (id) => isComing(id) || (hasLeft && hosted.has(id)),
    isStarting: () => expected.keys().some(isComing),
    leave() {
      hasLeft = true
    },
  }
}

export type Selling = ReturnType<typeof createSelling>

/** The part of a node that sells: its agents, the protocols that serve them, and settlement. */
export function createSelling(config: Config, secrets: Secrets, deps: SellingDeps) {
  const { identity, wallet, asset, ledger, facilitator, chain, host, clock, logger, random, slots, agentPurchases } =
    deps
  const { siblings } = deps
  const { replica } = deps.listings
  const agentsFile = dataFile(config.dataDir, 'agents')
  const functions: FunctionAgents = createFunctionAgents()
  const createRuntimeOf = createRuntimeFactory(
    {
      providerKeys: secrets.providerKeys,
      readKey: (name) => secrets.env(name),
      dataDir: config.dataDir,
      loadModules: true,
      takesChannels: deps.channelParts !== undefined && config.seller.channels !== 'off',
    },
    { fetch: deps.fetch, logger, agentPurchases, workers: deps.workers },
  )
  const registry = createRegistry(
    { sellerId: identity.peerId, agentsMax: AGENTS_MAX },
    {
      agents: deps.hosted,
      expected: deps.expected,
      createRuntime: async (definition) => functions.runtimeOf(definition) ?? createRuntimeOf(definition),
    },
  )
  const channelOffer = offerOf(config, deps, () => agents.followChannels())
  const agents: OwnAgents = createOwnAgents({
    sellerId: identity.peerId,
    clock,
    registry,
    replica,
    exchanges: ledger.exchanges,
    slots,
    asset,
    payTo: wallet.address,
    channel: channelOffer && (async () => ((await channelOffer.listed()) ? channelTerms(config, deps) : undefined)),
    sellerName: config.nodeName,
    // A function cannot be stored. An agent whose function is missing must not be stored.
    persist: async (definition) => {
      if (functions.has(definition.name)) return false
      await addAgentToFile(agentsFile, definition)
      return true
    },
    tokenOf: (id) => deps.transactions.tokenOf(id, config.network),
    isAhead: agentPurchases.isAhead,
    soldElsewhere: siblings.agents,
    takesElsewhere: siblings.takesRun,
    tellOthers: siblings.tell,
    forget: (name) => removeAgentFromFile(agentsFile, name),
    leave: deps.leave,
  })
  const { seller } = config
  const { perPayerMax, totalMax, checkFrom } = exposureLimits
  const { x402, exposure, settler, unrun, channels, settledWork, protocols } = createSales(
    {
      exposure: {
        perPayerMax: seller.unsettledPerPayerAtomic ?? perPayerMax,
        totalMax: seller.unsettledMaxAtomic ?? totalMax,
        checkFrom: seller.checkFundsFromAtomic ?? checkFrom,
      },
      blocked: seller.block,
      limits: { requestsPerSecond: seller.peerRequestsPerSecond },
      drainMs: seller.drainSeconds * 1000,
      settleFirst: seller.settleFirst,
      // The same key receives payments and signs receipts.
      payTo: wallet.address,
      sellerDid: identity.did,
    },
    {
      ...{ clock, logger, asset, wallet, ledger, slots, chain, funds: chain, didOf: didOfPeer },
      agents: createServedAgents(agents, { registry, replica, sellerId: identity.peerId, trading: deps.trading }),
      facilitator: facilitator && withPause(facilitator, { clock, logger }),
      chance: () => random(1)[0]! / 256,
      seal: createChallengeSeal(identity.privateKey.raw, random),
      noteCall: () => deps.pace.noteCall(),
      sellersOf: siblings.sellersOf,
      channels: deps.channelParts && { ...deps.channelParts, takesNew: () => channelOffer?.isOpen === true },
      tail: deps.tail,
      handle: (...args) => host.handle(...args),
    },
  )
  return {
    outbox: { payments: ledger.payments, wake: () => settler.wake() },
    ...{ agents, functions, registry, exposure, settler, unrun, channels, channelOffer, x402 },
    doors: [settledWork, protocols],
    readFile: () => readStoredAgents(agentsFile),
    /** Goes on with the sales of processes that have ended. */
    async takeOver() {
      await settler.takeOver()
      settledWork.wake()
    },
    async models(signal: AbortSignal) {
      const { availableModels } = await import('../agents/available-models.ts')
      return availableModels({ keys: secrets.providerKeys, fetch: deps.fetch }, signal)
    },
    /** Returns the ids of own agents whose name contains this text. */
    named(text: string): string[] {
      const sought = text.toLowerCase()
      return registry.list().flatMap(({ id, definition: { name } }) => (name.toLowerCase().includes(sought) ? id : []))
    },
  }
}

/** Whether this node offers payment channels. Undefined: never. */
function offerOf({ seller }: Config, { channelParts, logger }: SellingDeps, changed: ChannelOfferDeps['changed']) {
  if (channelParts === undefined || seller.channels === 'off') return undefined
  return new ChannelOffer({ logger, trouble: channelParts.trouble, changed })
}

/** What this node wants of payment channels, in its listings. */
function channelTerms({ seller }: Config, { wallet }: Pick<SellingDeps, 'wallet'>): ListingRecord['channel'] {
  return {
    receiver_authorizer: wallet.channelSigner('claims').address,
    withdraw_delay: seller.channelWithdrawDelaySeconds,
    min_deposit: seller.channelMinDepositAtomic,
    stream_vouchers: true,
  }
}
