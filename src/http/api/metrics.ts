import { collectDefaultMetrics, type Metric, Registry } from 'prom-client'
import { openAiMeters } from '../../ledger/door-meters.ts'
import { meterNames } from '../../ledger/ledger-meters.ts'
import type { Labels } from '../../lib/meters.ts'
import { StoreError } from '../../store/store-error.ts'
import { PUBLIC_REQUESTS } from '../public/public-meters.ts'
import { channelFamilies } from './channel-metrics.ts'
import { fleetFamilies } from './fleet-metrics.ts'
import { type Family, gauge, type MetricSources, one, type Value } from './metric-family.ts'
import { sourceFamilies } from './source-metrics.ts'

/** Books without a sum per day. */
const openBooks = ['owed', 'lost', 'refused', 'held', 'not_charged'] as const

/** Exported as 0 before the first event, because a rate needs a start value. */
const knownCounts: Record<string, Labels[]> = {
  [openAiMeters.requests]: ['answered', 'refused', 'limited', 'failed', 'paid_but_failed', 'left'].map((outcome) => ({
    outcome,
  })),
  [openAiMeters.joined]: [{}],
  [openAiMeters.spent]: [{}],
  [openAiMeters.running]: [{}],
  [meterNames.executions]: [
    ...['completed', 'failed', 'cancelled'].map((result) => ({ side: 'sold', result })),
    ...['completed', 'failed', 'cancelled'].map((result) => ({ side: 'ordered', result })),
  ],
  [meterNames.payments]: [
    ...['authorized', 'owed', 'settled', 'voided', 'unsettled'].map((state) => ({ direction: 'in', state })),
    ...['reserved', 'spent', 'released'].map((state) => ({ direction: 'out', state })),
  ],
}

/** Every metric of the node: a meter, or a value of its current state. prom-client adds those of the process. */
const families: readonly Family[] = [
  gauge('stoa_info', 'Version and network of the node.', async ({ status }) => {
    const { version, network } = await status()
    return [{ value: 1, labels: { version, network } }]
  }),
  gauge('stoa_uptime_seconds', 'Time since the node started.', async ({ status }) =>
    one((await status()).uptime_seconds),
  ),
  counter(meterNames.executions, 'Ended tasks by result: sold to peers, or ordered here.'),
  histogram(meterNames.executionSeconds, 'Time that agents of this node worked on tasks of peers.'),
  counter(meterNames.payments, 'Payments that reached a state: received (in) or made (out).'),
  histogram(meterNames.settlementSeconds, 'Time from the delivery of paid work to its settlement on the chain.'),
  gauge('stoa_outbox_payments', 'Payments that are owed to this node and not settled yet.', async ({ status }) =>
    one((await status()).settlement.pending),
  ),
  gauge('stoa_outbox_oldest_seconds', 'Time that the oldest owed payment has waited.', async ({ oldestOwedSeconds }) =>
    one(await oldestOwedSeconds()),
  ),
  gauge(
    'stoa_unsettled_payments',
    'Lost payments: the agent worked, and the payment will never be settled. stoa_payments_usdc has the amounts.',
    async ({ status }) => one((await status()).settlement.failed),
  ),
  gauge('stoa_peers', 'Connected peers.', ({ peers }) => {
    const all = peers()
    return ['inbound', 'outbound'].map((direction) => ({
      labels: { direction },
      value: all.filter((peer) => peer.direction === direction).length,
    }))
  }),
  gauge(
    'stoa_listings',
    'Listings on the market: those of this node (local) and all known ones.',
    async ({ status }) => {
      const { local, known } = (await status()).agents
      return [
        { value: local, labels: { origin: 'local' } },
        { value: known, labels: { origin: 'known' } },
      ]
    },
  ),
  gauge('stoa_reachability', 'How peers can reach this node: 1 at the current state.', async ({ status }) => {
    const { state } = (await status()).reachability
    return ['public', 'relayed', 'unreachable', 'unknown'].map((name) => ({
      labels: { state: name },
      value: name === state ? 1 : 0,
    }))
  }),
  gauge('stoa_payments_usdc', 'Sums of payments by book.', async ({ books }) => {
    const sums = await books()
    const open = openBooks.map((book) => ({ labels: { book }, value: Number(sums[book].amount) }))
    const whole = (['earned', 'paid'] as const).map((book) => ({ labels: { book }, value: Number(sums[book].total) }))
    return [...whole, ...open]
  }),
  gauge('stoa_alarms', 'Alarms that were not dismissed.', async ({ status }) => one((await status()).alarms ?? 0)),
  gauge('stoa_budget_usdc', 'Amounts paid and held on this UTC day and in this month.', async ({ budget }) => {
    const { paid_today, paid_month, held_today, held_month } = await budget()
    const ofBook = (book: string, values: Value[]) =>
      values.map(({ labels, value }) => ({ labels: { ...labels, book }, value }))
    return [...ofBook('paid', byPeriod(paid_today, paid_month)), ...ofBook('held', byPeriod(held_today, held_month))]
  }),
  gauge(
    'stoa_budget_left_usdc',
    'Amount that the budget still allows. Without a limit there is no value.',
    async ({ budget }) => {
      const { left_today, left_month } = await budget()
      return byPeriod(left_today, left_month)
    },
  ),
  gauge('stoa_approvals_pending', 'Purchases that wait for the operator to approve them.', async ({ approvals }) =>
    one((await approvals('pending')).length),
  ),
  gauge('stoa_webhook_pending', 'Messages that webhooks have not taken yet.', async ({ webhooks }) =>
    one((await webhooks()).reduce((sum, { pending }) => sum + pending, 0)),
  ),
  {
    ...gauge('stoa_webhook_dropped_total', 'Messages to webhooks that were dropped.', async ({ webhooks }) =>
      one((await webhooks()).reduce((sum, { dropped }) => sum + dropped, 0)),
    ),
    type: 'counter',
  },
  counter(PUBLIC_REQUESTS, 'Requests on the public listener, by the status of their answer.'),
  counter(openAiMeters.requests, 'Requests at the OpenAI door, by how they ended.'),
  counter(openAiMeters.joined, 'Requests at the OpenAI door that got the outcome of an equal one.'),
  counter(openAiMeters.spent, 'USDC paid for answers through the OpenAI door.'),
  histogram(openAiMeters.seconds, 'Time that requests at the OpenAI door took.'),
  { ...counter(openAiMeters.running, 'Requests at the OpenAI door that run now.'), type: 'gauge' },
  gauge(
    'stoa_public_certificate_days',
    'Days until the certificate of the public listener expires. Without TLS files there is no value.',
    ({ certificateDays }) => {
      const days = certificateDays()
      return days === undefined ? [] : one(days)
    },
  ),
  ...fleetFamilies,
  ...channelFamilies,
  ...sourceFamilies,
]

export function createMetrics(sources: MetricSources): { text(): Promise<string> } {
  const registry = new Registry()
  // prom-client usually stores values. Ours are read from the sources at each scrape.
  for (const { read, ...family } of families) {
    const get = async () => ({ ...family, aggregator: 'sum', values: await samples(read, sources) })
    registry.registerMetric({ name: family.name, get } as unknown as Metric)
  }
  collectDefaultMetrics({ register: registry })
  return { text: () => registry.metrics() }
}

/** While the ledger is away, what is read there has no samples: the others, which tell that it is, are still scraped. */
async function samples(read: Family['read'], sources: MetricSources): Promise<Value[]> {
  try {
    return await read(sources)
  } catch (error) {
    if (error instanceof StoreError && error.code === 'STORE_AWAY') return []
    throw error
  }
}

function counter(name: string, help: string): Family {
  return {
    ...{ name, help, type: 'counter' },
    read({ meters }) {
      const counted = meters.counts(name)
      const has = (labels: Labels) => counted.some((count) => JSON.stringify(count.labels) === JSON.stringify(labels))
      const zeros = (knownCounts[name] ?? []).filter((labels) => !has(labels)).map((labels) => ({ labels, value: 0 }))
      return [...counted, ...zeros]
    },
  }
}

function histogram(name: string, help: string): Family {
  return {
    ...{ name, help, type: 'histogram' },
    read({ meters }) {
      const { bounds, counts, sum } = meters.histogram(name)
      const buckets = counts.map((value, place) => ({
        metricName: `${name}_bucket`,
        labels: { le: String(bounds[place] ?? '+Inf') },
        value,
      }))
      return [
        ...buckets,
        { metricName: `${name}_sum`, value: sum },
        { metricName: `${name}_count`, value: counts.at(-1)! },
      ]
    },
  }
}

function byPeriod(day: string | null, month: string | null): Value[] {
  const values = Object.entries({ day, month })
  return values.flatMap(([period, text]) => (text === null ? [] : [{ labels: { period }, value: Number(text) }]))
}
