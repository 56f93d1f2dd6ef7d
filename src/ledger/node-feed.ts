import type { Service } from '../lib/lifecycle.ts'
import type { Replica } from '../listings/replica.ts'
import type { NodeStatus } from '../schema/api.ts'
import type { ListingRecord } from '../schema/listing.ts'
import type { NodeFeed } from './ledger-feed.ts'

/** How often the status is read while a client follows it. */
const LOOK_MS = 1_000
/** How often the status is published when nothing but its time has changed. */
const PUBLISH_MS = 10_000

export function nodeFeed(deps: { feed: NodeFeed; replica: Pick<Replica, 'onChange'>; status(): NodeStatus }): Service {
  const { feed, replica } = deps
  let leave = () => {}
  let timer: NodeJS.Timeout | undefined
  let published = ''
  let publishedAt = 0

  function listing({ id, name, seller_id, state }: ListingRecord, wasShown: boolean): void {
    // Clients that never saw a listing need no event about its delisting.
    if (state === 'delisted' && !wasShown) return
    const change = state === 'delisted' ? 'delisted' : wasShown ? 'updated' : 'listed'
    feed.publish('listing', id, () => ({ change, agent_id: id, name, seller_id }))
  }

  function look(): void {
    if (!feed.isWatched('status')) {
      published = ''
      return
    }
    const status = deps.status()
    const seen = JSON.stringify({ ...status, uptime_seconds: 0 })
    if (seen === published && performance.now() - publishedAt < PUBLISH_MS) return
    published = seen
    publishedAt = performance.now()
    feed.publish('status', 'status', () => status)
  }

  return {
    name: 'feed',
    async start() {
      leave = replica.onChange(listing)
      timer = setInterval(look, LOOK_MS).unref()
    },
    async stop() {
      clearInterval(timer)
      leave()
    },
  }
}
