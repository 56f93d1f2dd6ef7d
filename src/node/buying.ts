import type { HostedAgent } from '../agents/hosted-agent.ts'
import type { RunSlots } from '../agents/run-slots.ts'
import { APPROVAL_MINUTES } from '../buying/approvals.ts'
import { budgetRules, createRulesStore } from '../buying/budget-rules.ts'
import { type Buyer, type BuyerDeps, createBuyer } from '../buying/buyer.ts'
import { createWalletChecks } from '../buying/wallet-checks.ts'
import { createChannelReader } from '../chain/batch-settlement.ts'
import type { Config } from '../config/config.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Service } from '../lib/lifecycle.ts'
import { poll } from '../lib/wait.ts'
import type { Host } from '../p2p/host.ts'
import { asOverloaded } from '../protocols/x402/admit.ts'
import { runOwnAgent } from '../selling/own-runs.ts'
import { createStoredRules } from '../store/stored-rules.ts'
import type { Foundation } from './foundation.ts'
import type { Listings } from './market.ts'

/** A run of an own agent waits so long for the start to host it. */
const HOSTED_MS_MAX = 60_000

type BuyingDeps = Pick<
  Foundation,
  | 'identity'
  | 'tail'
  | 'wallet'
  | 'asset'
  | 'database'
  | 'runTime'
  | 'trading'
  | 'feed'
  | 'clock'
  | 'logger'
  | 'pace'
  | 'random'
> &
  Pick<BuyerDeps, 'chain' | 'measures' | 'sender'> & {
    host: Pick<Host, 'openStream' | 'superseded'>
    chain: Foundation['chain']
    ledger: Ledger
    listings: Pick<Listings, 'catalog' | 'replica'>
    hosted: ReadonlyMap<string, HostedAgent>
    isComing(id: string): boolean
    isAway(id: string): boolean
    slots: RunSlots
  }

export async function createBuying({ buyer }: Config, deps: BuyingDeps): Promise<{ api: Buyer; streams: Service }> {
  const { identity, wallet, chain, clock, logger, host, ledger, hosted, isComing, slots, pace } = deps
  const { exchanges } = ledger
  const api = createBuyer(
    {
      callerDid: identity.did,
      sellerId: identity.peerId,
      rules: budgetRules(buyer),
      storedRules: await createRulesStore(createStoredRules(deps.database)).load(),
      approvalMinutes: buyer.approvalMinutes ?? APPROVAL_MINUTES,
      maxWindowSeconds: buyer.maxWindowSeconds,
      allowSettleFirst: buyer.allowSettleFirst,
      awaitsSettlement: buyer.awaitSettlement,
      channels: buyer.channels,
      privateOrigins: buyer.privateOrigins,
    },
    {
      ...{ ...deps, ...deps.listings },
      funds: chain && createWalletChecks({ clock, logger, wallet, chain }),
      channelReader: chain && createChannelReader(chain),
      chainLog: chain,
      openStream: (...args) => host.openStream(...args),
      superseded: (stream) => host.superseded(stream),
      async runOwn(id, call) {
        // After a crash the listings of this node are still there before its agents are.
        await poll(() => !isComing(id) || undefined, { limitMs: HOSTED_MS_MAX, signal: call.signal })
        return runOwnAgent(id, call, { agents: hosted, slots, exchanges, clock }).catch(asOverloaded)
      },
    },
  )
  return {
    api: {
      ...api,
      execute(request) {
        pace.noteCall()
        return api.execute(request)
      },
      buyUrl(request) {
        pace.noteCall()
        return api.buyUrl(request)
      },
    },
    streams: { name: 'streams', start: async () => {}, stop: () => api.streams.close() },
  }
}
