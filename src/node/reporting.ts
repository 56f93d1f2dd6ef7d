import { randomUUID } from 'node:crypto'
import { approvalMsOf } from '../buying/budget-rules.ts'
import type { Config } from '../config/config.ts'
import { ConfigError } from '../config/config-error.ts'
import type { Secrets } from '../config/secrets.ts'
import { shownConfig } from '../config/shown-config.ts'
import type { NodeFeed } from '../ledger/ledger-feed.ts'
import { nodeFeed } from '../ledger/node-feed.ts'
import type { Earnings } from '../ledger/stats.ts'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { Meters } from '../lib/meters.ts'
import { createPost } from '../lib/post.ts'
import type { Replica } from '../listings/replica.ts'
import { exposureLimits } from '../payments/exposure.ts'
import { formatPrice } from '../schema/amount.ts'
import type { NodeStatus, PeerStatus } from '../schema/api.ts'
import type { BudgetRecord } from '../schema/budget.ts'
import type { OwnAgent } from '../schema/own-agent.ts'
import { WebhookSecret } from '../schema/webhook.ts'
import { createAlarmStore } from '../store/alarms.ts'
import type { Database } from '../store/database.ts'
import type { Payments } from '../store/payments.ts'
import { createWebhookStore } from '../store/webhooks.ts'
import { type ConfiguredWebhook, Webhooks } from '../webhooks/webhooks.ts'
import { createAlarms } from './alarms.ts'
import { diagnose } from './diagnosis.ts'

type ObservingDeps = {
  clock: Clock
  logger: Logger
  database: Database
  feed: NodeFeed
  replica: Replica
  /** The status without alarms. The alarms are derived from it. */
  condition(): NodeStatus
  nameOf(agentId: string): string | undefined
  stats: Earnings['stats']
  peers(): PeerStatus[]
  meters: Meters
  payments: Pick<Payments, 'oldestOwed'>
  budget(): BudgetRecord
  approvals(status: 'pending'): readonly unknown[]
  fetch: typeof fetch
  agents(): OwnAgent[]
}

/**
 * Events, webhooks, alarms and metrics: the parts that report on a node. @throws ConfigError for a webhook without its
 * secret
 */
export function createObserving(config: Config, secrets: Secrets, deps: ObservingDeps) {
  const { clock, logger, database, feed } = deps
  const webhooks = new Webhooks({
    ...{ clock, logger, feed },
    store: createWebhookStore(database),
    newId: randomUUID,
    postOut: createPost({ publicOnly: true }),
    postAnywhere: createPost({ publicOnly: false }),
    configured: (config.webhooks ?? []).map(({ url, events, secret_env }) => ({
      ...{ url, events },
      secret: secretOf(secret_env, secrets),
    })),
  })
  const alarms = createAlarms({
    ...{ clock, logger, store: createAlarmStore(database) },
    ...{ agents: deps.agents, status: deps.condition, nameOf: deps.nameOf },
  })
  const status = () => ({ ...deps.condition(), alarms: alarms.count() })
  const { meters, peers, budget, approvals, payments } = deps
  const oldestOwedSeconds = () => {
    const at = payments.oldestOwed()
    return at === undefined ? 0 : Math.max(0, (clock.now() - at) / 1000)
  }
  const books = () => deps.stats({ days: 0 })
  const metrics = {
    meters,
    status,
    peers,
    budget,
    approvals,
    oldestOwedSeconds,
    webhooks: () => webhooks.list(),
    books,
  }
  return {
    status,
    api: {
      webhooks,
      metrics,
      alarms,
      configuration: () => shownConfig(config, inForce(config, budget())),
      diagnosis: (signal: AbortSignal) =>
        diagnose({ config, clock, fetch: deps.fetch, agents: deps.agents, status, alarms }, signal),
    },
    services: [nodeFeed({ ...deps, status }), webhooks, alarms],
  }
}

/** The limits in force: defaults of the seller's guard, and a budget that may have changed while the node runs. */
function inForce({ buyer, seller }: Config, budget: BudgetRecord) {
  const { perPayerMax, totalMax, checkFrom } = exposureLimits
  return {
    'buyer.max_price': budget.per_call,
    'buyer.daily_budget': budget.per_day,
    'buyer.monthly_budget': budget.per_month,
    'buyer.seller_daily_budget': budget.per_seller,
    'buyer.auto_approve_below': budget.auto_approve_below,
    'buyer.approval_minutes': approvalMsOf(buyer) / 60_000,
    'buyer.allow': budget.allow,
    'buyer.deny': budget.deny,
    'seller.unsettled_per_payer': formatPrice(seller.unsettledPerPayerAtomic ?? perPayerMax),
    'seller.unsettled_max': formatPrice(seller.unsettledMaxAtomic ?? totalMax),
    'seller.check_funds_from': formatPrice(seller.checkFundsFromAtomic ?? checkFrom),
  }
}

function secretOf(variable: string, secrets: Secrets): ConfiguredWebhook['secret'] {
  const secret = WebhookSecret.safeParse(secrets.env(variable))
  if (secret.success) return secret.data
  const how = secrets.env(variable) === undefined ? 'is not set' : secret.error.issues[0]!.message
  throw new ConfigError(`config.yaml: webhooks: the variable ${variable}, which secret_env names, ${how}`)
}
