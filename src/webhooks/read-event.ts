import type { UnixMs } from '../lib/clock.ts'
import type { FeedEvent } from '../lib/feed.ts'
import type { NodeEvents } from '../schema/events.ts'
import { eventName } from './webhook-message.ts'

/** The current data of an event, for a message. Undefined: its subject no longer exists. @throws StoreError */
export async function readEvent(
  event: FeedEvent<NodeEvents>,
): Promise<{ name: string; body(now: UnixMs): Promise<string> } | undefined> {
  const data = await event.read()
  if (data === undefined) return undefined
  return {
    name: eventName(event.type, data),
    // Loaded on demand, because it brings the schemas of all events. A node without webhooks never loads it.
    body: async (now) => (await import('./webhook-body.ts')).messageBody(event.type, data, now),
  }
}
