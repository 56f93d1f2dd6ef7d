import type { Labels, Meters } from '../../lib/meters.ts'
import type { ChannelsSummary } from '../../payments/channels/channels-summary.ts'
import type { NodeStatus, PeerStatus } from '../../schema/api.ts'
import type { BudgetRecord } from '../../schema/budget.ts'
import type { ChannelSums } from '../../schema/channel-record.ts'
import type { Fleet } from '../../schema/fleet.ts'
import type { Stats } from '../../schema/ledger.ts'
import type { OwnAgent } from '../../schema/own-agent.ts'
import type { Source } from '../../schema/source.ts'
import type { Webhook } from '../../schema/webhook.ts'
import type { WorkerRecord } from '../../schema/worker.ts'
import type { LedgerLatency } from '../../store/latency.ts'

/** The sources of the metrics, read at each scrape. */
export type MetricSources = {
  meters: Meters
  status(): Promise<NodeStatus>
  peers(): readonly PeerStatus[]
  webhooks(): Promise<readonly Webhook[]>
  /** Amounts in USDC as decimal text. Null: no limit. */
  budget(): Promise<Pick<BudgetRecord, BudgetSum>>
  /** Sums by book (D42). */
  books(): Promise<Pick<Stats, 'earned' | 'owed' | 'lost' | 'refused' | 'paid' | 'held' | 'not_charged'>>
  approvals(status: 'pending'): Promise<readonly unknown[]>
  /** How long the oldest owed payment has waited, in s. 0 if none waits. */
  oldestOwedSeconds(): Promise<number>
  /** The processes as this one last saw them, without their workers. */
  fleet(): Fleet
  workers(): Promise<readonly WorkerRecord[]>
  agents(): readonly OwnAgent[]
  /** For how long this process may not know what others have changed. */
  lagMs(): number
  latency(): LedgerLatency
  /** Until the certificate of the public listener expires. Undefined: it has none. */
  certificateDays(): number | undefined
  /** The catalogs of config.yaml, as they answered last. */
  catalogs(): readonly Source[]
  /** Undefined: this node takes no payment channels. */
  channels(): ChannelsSummary | undefined
  /** What lies in the channels of this node, in both roles. */
  channelSums(): Promise<ChannelSums>
}

type BudgetSum = `${'paid' | 'held'}_${'today' | 'month'}` | 'left_today' | 'left_month'
export type Value = { value: number; labels?: Labels; metricName?: string }
export type Family = {
  name: string
  help: string
  type: 'gauge' | 'counter' | 'histogram'
  read(from: MetricSources): Value[] | Promise<Value[]>
}

export const gauge = (name: string, help: string, read: Family['read']): Family => ({ name, help, type: 'gauge', read })
export const one = (value: number): Value[] => [{ value }]
