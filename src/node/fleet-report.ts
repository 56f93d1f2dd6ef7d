import type { Registry } from '../agents/registry.ts'
import type { BudgetRules } from '../buying/budget-rules.ts'
import type { Tail } from '../ledger/tail.ts'
import type { Trading } from '../ledger/trading.ts'
import type { Host } from '../p2p/host.ts'
import type { LedgerLatency } from '../store/latency.ts'
import type { OwnReport } from '../store/postgres/processes.ts'
import type { WorkerPool } from '../workers/worker-pool.ts'
import { hashOf } from './differences.ts'

type ReportDeps = {
  version: string
  host: Pick<Host, 'addresses'>
  marketHost: Pick<Host, 'peerId'>
  registry: Pick<Registry, 'list'>
  x402: { readonly running: { readonly size: number } }
  workers: Pick<WorkerPool, 'links' | 'failing'>
  tail: Pick<Tail, 'lagMs'>
  trading: Pick<Trading, 'isStopped'>
  latency(): LedgerLatency
  /** The rules of the budget, as this process has them in its configuration. */
  budget: BudgetRules
}

/** What this process says of itself to the other processes of its seller. */
export function reportOn(deps: ReportDeps): Omit<OwnReport, 'isDraining'> {
  const { version, host, marketHost, registry, x402, workers, tail, trading } = deps
  const agents = registry.list()
  const { read, change } = deps.latency()
  return {
    version,
    addresses: host.addresses(),
    home: marketHost.peerId,
    agents: trading.isStopped()
      ? []
      : agents.flatMap(({ id, definition, lacks }) => (definition.paused === true || lacks ? [] : id)),
    running: x402.running.size,
    definitions: Object.fromEntries(agents.map(({ definition }) => [definition.name, hashOf(definition)])),
    budget: hashOf(deps.budget),
    workers: workers.links().map((link) => {
      const { id, agents: offered, runsMax, since } = link.worker
      return { id, agents: [...offered.keys()], failing: workers.failing(link), running: link.running, runsMax, since }
    }),
    lagMs: Math.round(tail.lagMs()),
    latency: { ...(read && { read }), ...(change && { change }) },
  }
}
