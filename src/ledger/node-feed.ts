import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import type { Replica } from '../listings/replica.ts'
import type { NodeStatus } from '../schema/api.ts'
import type { ListingRecord } from '../schema/listing.ts'
import type { NodeFeed } from './ledger-feed.ts'

/** How often the status is read while a client follows it. */
const LOOK_MS = 1_000
/** How often the status is published when nothing but its time has changed. */
const PUBLISH_MS = 10_000

type NodeFeedDeps = {
  feed: NodeFeed
  logger: Logger
  replica: Pick<Replica, 'onChange'>
  status(): Promise<NodeStatus>
}

export function nodeFeed({ feed, logger, replica, status: read }: NodeFeedDeps): Service {
  let leave = () => {}
  let timer: NodeJS.Timeout | undefined
  let looking: Promise<void> | undefined
  let published = ''
  let publishedAt = 0

  function listing({ id, name, seller_id, state }: ListingRecord, wasShown: boolean): void {
    // Clients that never saw a listing need no event about its delisting.
    if (state === 'delisted' && !wasShown) return
    const change = state === 'delisted' ? 'delisted' : wasShown ? 'updated' : 'listed'
    feed.publish('listing', id, () => ({ change, agent_id: id, name, seller_id }))
  }

  async function look(): Promise<void> {
    if (!feed.isWatched('status')) {
      published = ''
      return
    }
    const status = await read()
    const seen = JSON.stringify({ ...status, uptime_seconds: 0 })
    if (seen === published && performance.now() - publishedAt < PUBLISH_MS) return
    published = seen
    publishedAt = performance.now()
    feed.publish('status', 'status', () => status)
  }

  function lookIfIdle(): void {
    looking ??= look()
      .catch((error: unknown) => logger.error({ err: error }, 'could not read the status of the node'))
      .finally(() => {
        looking = undefined
      })
  }

  return {
    name: 'feed',
    async start() {
      leave = replica.onChange(listing)
      timer = setInterval(lookIfIdle, LOOK_MS).unref()
    },
    async stop() {
      clearInterval(timer)
      leave()
      await looking
    },
  }
}
