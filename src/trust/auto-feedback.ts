import type { NodeFeed } from '../ledger/ledger-events.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import type { OrderRecord } from '../schema/order.ts'
import type { GiveFeedback } from '../schema/standing.ts'

const AGENTS_MAX = 1_000
const ORDERS_MAX = 1_000
/** Longer than a transaction takes; what is not mined by then is looked for by the next rating. */
const RATING_MS_MAX = 120_000

export type AutoFeedbackDeps = {
  logger: Logger
  feed: Pick<NodeFeed, 'subscribe'>
  /** How often this node's calls of an agent brought a result, from 0 to 1. */
  successRate(agentId: string): number
  /** Whether an agent can be rated at all: it is listed by another, with a token. */
  isRatable(agentId: string): boolean
  rate(agentId: string, feedback: GiveFeedback, signal: AbortSignal): Promise<unknown>
}

/**
 * Rates agents on the chain without being asked, where its operator wants that (`buyer.rate_every`): each one after every
 * so many paid orders, by the share of them that brought a result. Each rating costs gas, so it is one at a time, counted
 * from the start of the node, and what fails is told and not tried again.
 */
export function createAutoFeedback({ every }: { every: number }, deps: AutoFeedbackDeps): Service {
  const { feed, logger } = deps
  const stopping = new AbortController()
  const seen = new Set<string>()
  const counts = new Map<string, number>()
  let following: Promise<void> = Promise.resolve()

  /** Whether it is this agent's turn. */
  function counted({ id, agent_id: agentId, status, payment }: OrderRecord): boolean {
    const hasEnded = status === 'completed' || status === 'failed'
    // What nothing was signed for says nothing of the seller's work; one order is told of more than once.
    if (!hasEnded || payment === undefined || seen.has(id)) return false
    remember(seen, id)
    const count = (counts.get(agentId) ?? 0) + 1
    counts.delete(agentId)
    counts.set(agentId, count % every)
    if (counts.size > AGENTS_MAX) counts.delete(counts.keys().next().value!)
    return count >= every && deps.isRatable(agentId)
  }

  async function rate(agentId: string): Promise<void> {
    const score = Math.round(deps.successRate(agentId) * 10_000) / 100
    const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(RATING_MS_MAX)])
    try {
      await deps.rate(agentId, { score, tag1: 'successRate' }, signal)
      logger.info({ agent_id: agentId, score }, 'rated an agent on the chain')
    } catch (error) {
      if (stopping.signal.aborted) return
      logger.warn({ agent_id: agentId, reason: reasonOf(error) }, 'an agent could not be rated on the chain')
    }
  }

  /** @returns whether to begin anew: what waits for a transaction may be too slow for the feed, which then lets go of it */
  async function follow(): Promise<boolean> {
    for await (const event of feed.subscribe({ types: ['order'], own: true, signal: stopping.signal })) {
      if (event.type === 'reset') return true
      const order = event.type === 'order' ? event.read() : undefined
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

function remember(set: Set<string>, id: string): void {
  set.add(id)
  if (set.size > ORDERS_MAX) set.delete(set.keys().next().value!)
}
