import type { Ledger } from '../ledger/ledger.ts'
import type { Service } from '../lib/lifecycle.ts'
import { blockedParties } from '../payments/blocked.ts'
import { Challenges } from '../payments/challenges.ts'
import { Exposure, type ExposureDeps, type ExposureOptions } from '../payments/exposure.ts'
import { Settler } from '../payments/settler.ts'
import { PeerLimits, type PeerLimitsOptions } from '../protocols/peer-limits.ts'
import { createProtocolServer, type HandleStreams } from '../protocols/serve.ts'
import type { X402ServerDeps } from '../protocols/x402/exchange.ts'
import { Reruns } from '../protocols/x402/reruns.ts'
import { SettledWork } from '../protocols/x402/settled-work.ts'
import { A2A_CALLER } from '../schema/caller.ts'

type SalesOptions = Pick<X402ServerDeps, 'payTo' | 'sellerDid' | 'settleFirst'> & {
  exposure: ExposureOptions
  /** Accounts that cannot pay and peers that are not served. */
  blocked?: readonly string[] | undefined
  limits: PeerLimitsOptions
  settler?: ConstructorParameters<typeof Settler>[0]
}

type Settling = ConstructorParameters<typeof Settler>[1]

type SalesDeps = Pick<
  X402ServerDeps,
  'clock' | 'logger' | 'asset' | 'wallet' | 'didOf' | 'newNonce' | 'agents' | 'slots'
> &
  Pick<Settling, 'facilitator' | 'chain' | 'chance'> & {
    ledger: Pick<Ledger, 'payments' | 'exchanges' | 'deferred' | 'listen'>
    /** Reads what payers hold. */
    funds: ExposureDeps['chain']
    noteCall?(): void
    handle: HandleStreams
  }

/** Sells runs of agents to peers, and settles what they paid. */
export function createSales(
  { exposure: exposureOptions, blocked = [], limits, settler: settlerOptions = {}, ...options }: SalesOptions,
  deps: SalesDeps,
): {
  x402: X402ServerDeps
  exposure: Service
  settler: Service & Settler
  settledWork: SettledWork
  protocols: Service
} {
  const { clock, logger, asset, wallet, didOf, newNonce, agents, slots, ledger, facilitator, chain, chance } = deps
  const { payments, exchanges, deferred } = ledger
  const exposure = new Exposure(exposureOptions, { clock, logger, payments, chain: deps.funds })
  ledger.listen((change) => exposure.changed(change))
  const isOffered = (id: string) => agents.tokenOf(id) !== undefined
  const settler = new Settler(settlerOptions, { clock, logger, payments, facilitator, chain, chance, isOffered })
  const x402: X402ServerDeps = {
    ...{ ...options, clock, logger, asset, wallet, didOf, newNonce, agents, slots },
    ...{ payments, exchanges, deferred, settler, exposure, isBlocked: blockedParties(blocked) },
    limits: new PeerLimits(limits, deps),
    challenges: new Challenges(),
    reruns: new Reruns({ clock }),
    running: new Map(),
    wrappedRuns: new Map(),
  }
  const nameOf = (caller: string) => (caller.startsWith(A2A_CALLER) ? caller : didOf(caller))
  const settledWork = new SettledWork({ ...x402, didOf: nameOf })
  ledger.listen((change) => settledWork.changed(change))
  return { x402, exposure, settler, settledWork, protocols: createProtocolServer(deps.handle, x402) }
}
