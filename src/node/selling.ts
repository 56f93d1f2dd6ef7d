import type { AgentPurchases } from '../agents/agent-purchase.ts'
import { createRuntimeFactory } from '../agents/create-runtime.ts'
import { createFunctionAgents } from '../agents/function-agent.ts'
import { createRegistry, type HostedAgent } from '../agents/registry.ts'
import { RunSlots } from '../agents/run-slots.ts'
import { addAgentToFile, removeAgentFromFile } from '../config/agents-yaml.ts'
import type { Config } from '../config/config.ts'
import type { Secrets } from '../config/secrets.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Host } from '../p2p/host.ts'
import { didOfPeer } from '../p2p/identity.ts'
import { Challenges } from '../payments/challenges.ts'
import { Exposure, exposureLimits } from '../payments/exposure.ts'
import { Settler } from '../payments/settler.ts'
import { sparedFacilitator } from '../payments/spared-facilitator.ts'
import { PeerLimits } from '../protocols/peer-limits.ts'
import { createProtocolServer } from '../protocols/serve.ts'
import { Reruns } from '../protocols/x402/reruns.ts'
import { SettledWork } from '../protocols/x402/settled-work.ts'
import { A2A_CALLER } from '../schema/caller.ts'
import type { Hex } from '../schema/primitives.ts'
import { createOwnAgents, createServedAgents } from '../selling/hosted-agents.ts'
import { dataFile } from '../store/data-dir.ts'
import type { Foundation } from './foundation.ts'
import type { Listings } from './market.ts'

const AGENTS_MAX = 64
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
> &
  Hosting & {
    /** Takes the handlers of incoming streams. */
    host: Pick<Host, 'handle'>
    ledger: Pick<Ledger, 'payments' | 'exchanges' | 'deferred' | 'listen'>
    listings: Pick<Listings, 'replica'>
    agentPurchases: AgentPurchases
  }

/** The agents of this node, by id, and the slots in which they run, for peers and for the node's own API. */
type Hosting = { hosted: Map<string, HostedAgent>; slots: RunSlots }

export function createHosting({ seller }: Config): Hosting {
  const slots = new RunSlots({ concurrentMax: seller.concurrentRunsMax, waitingMax: RUNS_WAITING_MAX })
  return { hosted: new Map(), slots }
}

export type Selling = ReturnType<typeof createSelling>

/** The part of a node that sells: its agents, the protocols that serve them, and settlement. */
export function createSelling(config: Config, secrets: Secrets, deps: SellingDeps) {
  const { identity, wallet, asset, ledger, facilitator, chain, host, clock, logger, random, slots, agentPurchases } =
    deps
  const { payments, exchanges, deferred } = ledger
  const { replica } = deps.listings
  const functions = createFunctionAgents()
  const createRuntimeOf = createRuntimeFactory(
    {
      providerKeys: secrets.providerKeys,
      readKey: (name) => secrets.env(name),
      dataDir: config.dataDir,
      loadModules: true,
    },
    { fetch: deps.fetch, logger, agentPurchases },
  )
  const registry = createRegistry(
    { sellerId: identity.peerId, agentsMax: AGENTS_MAX },
    {
      agents: deps.hosted,
      createRuntime: async (definition) => functions.runtimeOf(definition) ?? createRuntimeOf(definition),
    },
  )
  const agents = createOwnAgents({
    sellerId: identity.peerId,
    clock,
    registry,
    replica,
    exchanges,
    slots,
    asset,
    payTo: wallet.address,
    sellerName: config.nodeName,
    // A function cannot be stored. An agent whose function is missing must not be stored.
    persist: async (definition) => {
      if (!functions.has(definition.name)) await addAgentToFile(dataFile(config.dataDir, 'agents'), definition)
    },
    tokenOf: (id) => deps.transactions.tokenOf(id, config.network),
    isAhead: agentPurchases.isAhead,
    forget: (name) => removeAgentFromFile(dataFile(config.dataDir, 'agents'), name),
  })
  const { perPayerMax, totalMax, checkFrom, blocked } = exposureLimits
  const exposure = new Exposure(
    {
      perPayerMax: config.seller.unsettledPerPayerAtomic ?? perPayerMax,
      totalMax: config.seller.unsettledMaxAtomic ?? totalMax,
      checkFrom: config.seller.checkFundsFromAtomic ?? checkFrom,
      blocked: config.seller.block ?? blocked,
    },
    { clock, logger, payments, chain },
  )
  ledger.listen((change) => exposure.changed(change))
  const spared = facilitator && sparedFacilitator(facilitator, { clock, logger })
  const chance = () => random(1)[0]! / 256
  const isOffered = (id: string) => agents.served(id) !== undefined
  const settler = new Settler({}, { clock, logger, payments, facilitator: spared, chain, chance, isOffered })
  const noteCall = () => deps.pace.noteCall()
  const x402 = {
    ...{ clock, logger, didOf: didOfPeer, asset, wallet, slots, payments, exchanges, deferred, settler, exposure },
    agents: createServedAgents(agents, { registry, replica, sellerId: identity.peerId, trading: deps.trading }),
    limits: new PeerLimits({ requestsPerSecond: config.seller.peerRequestsPerSecond }, { clock, noteCall }),
    // The same key receives payments and signs receipts.
    payTo: wallet.address,
    sellerDid: identity.did,
    newNonce: (): Hex => `0x${Buffer.from(random(32)).toString('hex')}`,
    challenges: new Challenges(),
    reruns: new Reruns({ clock }),
    running: new Map(),
    wrappedRuns: new Map(),
    settleFirst: config.seller.settleFirst,
  }
  const didOf = (caller: string) => (caller.startsWith(A2A_CALLER) ? caller : didOfPeer(caller))
  const settledWork = new SettledWork({ ...x402, didOf })
  ledger.listen((change) => settledWork.changed(change))
  const protocols = createProtocolServer((...args) => host.handle(...args), x402)
  return {
    outbox: { payments, wake: () => settler.wake() },
    ...{ agents, functions, registry, settler, x402, doors: [settledWork, protocols] },
    /** Returns the models that agents can use. */
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
