import * as z from 'zod'
import { mayFollowOf } from '../../../buying/may-follow.ts'
import type { NodeFeed } from '../../../ledger/ledger-feed.ts'
import type { ServerSentEvent } from '../../../lib/event-stream.ts'
import type { FeedEvent, FeedReset } from '../../../lib/feed.ts'
import type { Logger } from '../../../lib/logger.ts'
import type { NodeStatus } from '../../../schema/api.ts'
import type { Caller } from '../../../schema/caller.ts'
import { EventsQuery, EventTypes, type NodeEvents, nodeEvents } from '../../../schema/events.ts'
import { EventStream, type Operation, operation } from '../operation.ts'
import { statusFor } from '../status-for.ts'

/** What decides which events a caller may see (D48). */
type EventReaders = Parameters<typeof mayFollowOf>[0]

export function eventRoutes(
  events: Pick<NodeFeed, 'last' | 'subscribe'>,
  readers: EventReaders,
  logger: Logger,
): Operation[] {
  const mayFollow = mayFollowOf(readers)
  async function shown(caller: Caller, type: keyof NodeEvents, data: unknown): Promise<unknown> {
    if (type === 'status') return statusFor(caller, data as NodeStatus)
    return (await mayFollow(caller, type, data)) ? data : undefined
  }
  return [
    operation({
      id: 'streamEvents',
      method: 'GET',
      path: '/events',
      summary: 'Events of the node as they happen',
      description:
        'Server-sent events. `listing`, `order`, `payment`, `workflow` and `approval` report each change; `status` ' +
        'comes every 10 s and on each change. Data are JSON. Orders, payments, workflows and approvals look as ' +
        'their own operations answer them, at the time the event is sent. A client that reconnects with ' +
        '`Last-Event-ID` misses nothing. If too much has happened since, or if the client was too slow, `event: ' +
        'reset` tells it to load everything again. A token of `execute` or `spend` gets only the events of its own ' +
        'orders, payments, workflows and approvals.',
      tags: ['node'],
      access: 'private',
      scope: 'read',
      query: EventsQuery,
      media: 'text/event-stream',
      response: z.string().meta({ description: 'Server-sent events. The data of each are JSON.' }),
      errors: ['STREAMS_TOO_MANY'],
      handler({ query, headers, signal, caller }) {
        const types = query.types === undefined ? undefined : EventTypes.parse(query.types)
        const after = headers['last-event-id']
        const { last } = events
        const subscription = events.subscribe({ types, signal, ...(typeof after === 'string' && { after }) })
        const from = after === undefined ? last : undefined
        return new EventStream(encoded(subscription, from, (type, data) => shown(caller, type, data), logger))
      },
    }),
  ]
}

/**
 * @param shown what the caller sees of an event; undefined: nothing
 * @param from the start position of a new stream. A client that disconnects before the first event resumes here.
 */
async function* encoded(
  events: AsyncIterable<FeedEvent<NodeEvents> | FeedReset>,
  from: string | undefined,
  shown: (type: keyof NodeEvents, data: unknown) => Promise<unknown>,
  logger: Logger,
): AsyncGenerator<ServerSentEvent> {
  if (from !== undefined) yield { id: from }
  for await (const event of events) {
    const { id, type } = event
    if (type === 'reset') {
      yield { id, event: type, data: {} }
      continue
    }
    const read = await event.read()
    const data = read === undefined ? undefined : await shown(type, read)
    if (data === undefined) continue
    const written = z.safeEncode(nodeEvents[type] as z.ZodType, data as never)
    if (written.success) yield { id, event: type, data: written.data }
    else logger.error({ operation: type, err: written.error }, 'left out an event that does not fit its schema')
  }
}
