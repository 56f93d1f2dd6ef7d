import type { NodeFeed } from '../ledger/ledger-feed.ts'
import { BoundedMap } from '../lib/bounded-map.ts'
import type { FeedEvent } from '../lib/feed.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import type { NodeEvents } from '../schema/events.ts'
import type { OrderRecord } from '../schema/order.ts'
import type { GiveFeedback } from '../schema/standing.ts'

/** Agents whose orders are counted. Beyond it the least recently used agent is dropped. */
const AGENTS_MAX = 1_000
/** Order ids remembered, so that several events of one order count once. */
const ORDERS_MAX = 1_000
/** Longer than a transaction takes. The next rating looks for a transaction that was not mined by then. */
const RATING_MS_MAX = 120_000

type AutoFeedbackDeps = {
  logger: Logger
  feed: Pick<NodeFeed, 'subscribe'>
  /** Share of this node's calls of an agent that brought a result, from 0 to 1. */
  successRate(agentId: string): number
  /** True if an agent can be rated: another node lists it, with a token. */
  isRatable(agentId: string): boolean
  rate(agentId: string, feedback: GiveFeedback, signal: AbortSignal): Promise<unknown>
}

/**
 * Rates agents on the chain automatically (`buyer.rate_every`): each agent after a fixed number of paid orders, by the
 * share that brought a result. Each rating costs gas, so ratings run one at a time. Counts start at zero with the node.
 * A failed rating is logged and not retried.
 */
export function createAutoFeedback({ every }: { every: number }, deps: AutoFeedbackDeps): Service {
  const { feed, logger } = deps
  const stopping = new AbortController()
  const seen = new BoundedMap<string, true>(ORDERS_MAX)
  const counts = new BoundedMap<string, number>(AGENTS_MAX)
  let following: Promise<void> = Promise.resolve()

  /** Counts an order. Returns true if its agent is due for a rating. */
  function counted({ id, agent_id: agentId, status, payment }: OrderRecord): boolean {
    const hasEnded = status === 'completed' || status === 'failed'
    // An order without a payment says nothing about the seller's work. One order can cause several events.
    if (!hasEnded || payment === undefined || seen.has(id)) return false
    seen.set(id, true)
    const count = (counts.get(agentId) ?? 0) + 1
    counts.set(agentId, count % every)
    return count >= every && deps.isRatable(agentId)
  }

  async function rate(agentId: string): Promise<void> {
    const score = Math.round(deps.successRate(agentId) * 10_000) / 100
    const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(RATING_MS_MAX)])
    try {
      await deps.rate(agentId, { score, tag1: 'successRate' }, signal)
      logger.info({ agent_id: agentId }, `rated an agent on the chain with ${score}`)
    } catch (error) {
      if (stopping.signal.aborted) return
      logger.warn({ agent_id: agentId, err: error }, 'an agent could not be rated on the chain')
    }
  }

  /** An order that cannot be read is not counted. */
  async function orderOf(event: FeedEvent<NodeEvents, 'order'>): Promise<OrderRecord | undefined> {
    try {
      return await event.read()
    } catch (error) {
      logger.error({ err: error }, 'an order could not be read, so it counts toward no rating')
      return undefined
    }
  }

  /** @returns true to subscribe again: while this waits for a transaction, the feed may drop a slow reader */
  async function follow(): Promise<boolean> {
    for await (const event of feed.subscribe({
      types: ['order'],
      own: true,
      hereOnly: true,
      signal: stopping.signal,
    })) {
      if (event.type === 'reset') return true
      const order = event.type === 'order' ? await orderOf(event) : undefined
      if (order !== undefined && counted(order)) await rate(order.agent_id)
    }
    return false
  }

  async function keepFollowing(): Promise<void> {
    while (await follow()) {}
  }

  return {
    name: 'feedback',
    async start() {
      following = keepFollowing()
    },
    async stop() {
      stopping.abort(new Error('the node is stopping'))
      await following
    },
  }
}
