import type { NodeFeed } from '../ledger/ledger-feed.ts'
import type { Clock } from '../lib/clock.ts'
import type { FeedEvent } from '../lib/feed.ts'
import type { Logger } from '../lib/logger.ts'
import { doubledMs } from '../lib/retry.ts'
import { idle } from '../lib/wait.ts'
import type { NodeEvents } from '../schema/events.ts'
import { webhookEvents } from '../schema/webhook.ts'
import { isLedgerAway } from '../store/store-error.ts'
import type { StoredWebhook, WebhookStore } from '../store/webhooks.ts'
import { readEvent } from './read-event.ts'
import { isWanted } from './webhook-message.ts'

/** Messages that wait per webhook. Beyond it the oldest are dropped, those about listings first. */
const WAITING_MAX = 1_000
/** Pauses before an event is read or stored again. */
const QUEUE_AGAIN = { firstMs: 500, mostMs: 5_000 }

type EventQueueDeps = {
  clock: Clock
  logger: Logger
  store: Pick<WebhookStore, 'enqueue'>
  feed: NodeFeed
  newId(): string
  targets(): readonly Pick<StoredWebhook, 'id' | 'events'>[]
  /** Whether this process does what one of those that share a ledger does for all. */
  isKeeper(): Promise<boolean>
  /** A webhook has a new message. */
  queued(webhookId: string, dropped: number): void
  signal: AbortSignal
}

/**
 * Copies events to the disk until the signal aborts. After a reset, reads missed ones from the feed's history as far as it
 * goes back.
 *
 * The process that made a change queues its event, if several share a ledger. All of them see the listings of the market, so
 * one of them queues these events.
 */
export async function followEvents(deps: EventQueueDeps): Promise<void> {
  const { feed, logger, signal } = deps
  let after = feed.last
  let lastReset: string | undefined
  for (let goesOn = true; goesOn && !signal.aborted; ) {
    goesOn = false
    for await (const event of feed.subscribe({ types: webhookEvents, signal, own: true, hereOnly: true, after })) {
      if (event.type === 'reset') {
        goesOn = true
        // A second reset from the same position: the history no longer holds the missed events. Skip them.
        if (after === lastReset) {
          after = event.id
          logger.warn({}, 'too much happened at once: webhooks were not told of all of it')
        } else lastReset = after
        break
      }
      after = event.id
      await queueSurely(event, deps)
    }
  }
}

/** Waits while the ledger is away: what happened meanwhile is told too. */
async function queueSurely(event: FeedEvent<NodeEvents>, deps: EventQueueDeps): Promise<void> {
  for (let failures = 1; ; failures++) {
    try {
      return await queue(event, deps)
    } catch (error) {
      const mayPass = isLedgerAway(error)
      if (failures === 1 || !mayPass) {
        deps.logger.error({ err: error, operation: event.type }, 'webhooks could not be told of an event')
      }
      if (!mayPass || !(await idle(doubledMs(failures, QUEUE_AGAIN), deps.signal))) return
    }
  }
}

async function queue(event: FeedEvent<NodeEvents>, deps: EventQueueDeps): Promise<void> {
  const { store, clock, newId, targets, isKeeper, queued } = deps
  if (targets().length === 0) return
  const read = await readEvent(event)
  if (read === undefined) return
  const wanting = targets().filter(({ events }) => isWanted(events, read.name))
  if (wanting.length === 0 || (event.type === 'listing' && !(await isKeeper()))) return
  const now = clock.now()
  const body = await read.body(now)
  // An event that is queued twice, after a commit whose answer was lost, gives one message.
  const deliveries = wanting.map(({ id: webhookId }) => ({ id: newId(), webhookId, body, now, event: event.id }))
  const dropped = await store.enqueue(deliveries, WAITING_MAX)
  for (const { id } of wanting) queued(id, dropped.get(id) ?? 0)
}
