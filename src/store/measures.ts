import { BoundedMap } from '../lib/bounded-map.ts'
import type { UnixMs } from '../lib/clock.ts'
import type { Database } from './database.ts'
import type { RowOf } from './row.ts'

/** What this node measured while using an agent. */
export type Measure = {
  /** Calls that the seller ended, with success or not. */
  calls: number
  succeeded: number
  /** Settled amount in atomic units. */
  volume: bigint
  /** When the seller last answered. */
  lastSeen: UnixMs | undefined
  /** Milliseconds of the latest successful calls, latest last. */
  latencies: number[]
}

/** Latencies kept of one agent: enough for a median of its latest calls. */
export const LATENCIES_MAX = 128
/** Agents remembered. Beyond it the agents called longest ago are dropped. */
const MEASURED_MAX = 10_000

/** What this node measured of agents, on disk: derived from orders as they end. A crash may lose the last orders. */
export interface MeasureStore {
  /** The agent called least recently comes first. */
  all(): BoundedMap<string, Measure>
  save(measures: readonly (readonly [agentId: string, measure: Measure])[]): Promise<void>
}

type MeasureRow = Omit<RowOf<Measure>, 'latencies'> & { agentId: string; latencies: string }

const SELECT = `
  SELECT agent_id AS agentId, calls, succeeded, volume, last_seen AS lastSeen, latencies
  FROM agent_measures ORDER BY updated_no DESC LIMIT ?`

export function createMeasureStore(database: Database): MeasureStore {
  return {
    all() {
      const rows = database.all<MeasureRow>(SELECT, MEASURED_MAX)
      const measures = new BoundedMap<string, Measure>(MEASURED_MAX)
      for (const { agentId, volume, lastSeen, latencies, ...counts } of rows.reverse()) {
        const kept = JSON.parse(latencies) as number[]
        measures.set(agentId, { ...counts, volume: BigInt(volume), lastSeen: lastSeen ?? undefined, latencies: kept })
      }
      return measures
    },
    save: (measures) =>
      database.writeLater(() => {
        const put = database.prepare(`
          INSERT INTO agent_measures (agent_id, calls, succeeded, volume, last_seen, latencies, updated_no)
          VALUES (?, ?, ?, ?, ?, ?, (SELECT coalesce(max(updated_no), 0) + 1 FROM agent_measures))
          ON CONFLICT (agent_id) DO UPDATE SET calls = excluded.calls, succeeded = excluded.succeeded,
            volume = excluded.volume, last_seen = excluded.last_seen, latencies = excluded.latencies,
            updated_no = excluded.updated_no`)
        for (const [agentId, { calls, succeeded, volume, lastSeen, latencies }] of measures) {
          put.run(agentId, calls, succeeded, volume, lastSeen ?? null, JSON.stringify(latencies))
        }
        database
          .prepare(`
            DELETE FROM agent_measures WHERE updated_no <=
              (SELECT updated_no FROM agent_measures ORDER BY updated_no DESC LIMIT 1 OFFSET ?)`)
          .run(MEASURED_MAX)
      }),
  }
}
