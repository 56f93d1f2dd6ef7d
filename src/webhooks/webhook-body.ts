import * as z from 'zod'
import { isoTime, type UnixMs } from '../lib/clock.ts'
import { type EventType, type NodeEvents, nodeEvents } from '../schema/events.ts'
import { eventName } from './webhook-message.ts'

/** Characters of any text in a message, such as a task or a result. The API returns the full text by id. */
const TEXT_LENGTH_MAX = 4_096
/** Characters of a message body. A longer event is replaced by its id. */
const BODY_LENGTH_MAX = 256 * 1024

/** Builds the body of a message. Long texts are cut so that the body stays small. */
export function messageBody<T extends EventType>(type: T, data: NodeEvents[T], now: UnixMs): string {
  const name = eventName(type, data)
  const message = { type: name, timestamp: isoTime(now), data: z.encode(nodeEvents[type] as z.ZodType, data as never) }
  const text = JSON.stringify(message, shortened)
  if (text.length <= BODY_LENGTH_MAX) return text
  const { id } = data as { id?: unknown }
  return JSON.stringify({ ...message, data: { id } })
}

function shortened(_key: string, value: unknown): unknown {
  return typeof value === 'string' && value.length > TEXT_LENGTH_MAX
    ? `${value.slice(0, TEXT_LENGTH_MAX).toWellFormed()}…`
    : value
}
