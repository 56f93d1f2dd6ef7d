import { createHash } from 'node:crypto'
import type { Registry } from '../agents/registry.ts'
import type { Tail } from '../ledger/tail.ts'
import type { Trading } from '../ledger/trading.ts'
import type { Host } from '../p2p/host.ts'
import type { AgentDefinition } from '../schema/agent.ts'
import type { LedgerLatency } from '../store/latency.ts'
import type { OwnReport } from '../store/postgres/processes.ts'
import type { WorkerPool } from '../workers/worker-pool.ts'

const HASH_LENGTH = 12

type ReportDeps = {
  version: string
  host: Pick<Host, 'addresses'>
  marketHost: Pick<Host, 'peerId'>
  registry: Pick<Registry, 'list'>
  x402: { readonly running: { readonly size: number } }
  workers: Pick<WorkerPool, 'links'>
  tail: Pick<Tail, 'lagMs'>
  trading: Pick<Trading, 'isStopped'>
  latency(): LedgerLatency | undefined
}

/** What this process says of itself to the other processes of its seller. */
export function reportOn(deps: ReportDeps): Omit<OwnReport, 'isDraining'> {
  const { version, host, marketHost, registry, x402, workers, tail, trading } = deps
  const agents = registry.list()
  const { read, change } = deps.latency() ?? {}
  return {
    version,
    addresses: host.addresses(),
    home: marketHost.peerId,
    agents: trading.isStopped()
      ? []
      : agents.flatMap(({ id, definition, lacks }) => (definition.paused === true || lacks ? [] : id)),
    running: x402.running.size,
    definitions: Object.fromEntries(agents.map(({ definition }) => [definition.name, hashOf(definition)])),
    workers: workers.links().map(({ worker, running }) => ({
      ...{ id: worker.id, agents: [...worker.agents.keys()], running, runsMax: worker.runsMax, since: worker.since },
    })),
    lagMs: Math.round(tail.lagMs()),
    latency: { ...(read && { read }), ...(change && { change }) },
  }
}

/** Tells whether two processes run an agent with the same settings. */
function hashOf(definition: AgentDefinition): string {
  const text = JSON.stringify(definition, (_, value: unknown) => {
    if (typeof value === 'bigint') return value.toString()
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
  })
  return createHash('sha256').update(text).digest('base64url').slice(0, HASH_LENGTH)
}
