import { createHmac } from 'node:crypto'
import type { UnixMs } from '../lib/clock.ts'
import type { EventType, NodeEvents } from '../schema/events.ts'

/** The name under which a webhook is told of an event: its type, and the state it tells of. */
export function eventName<T extends EventType>(type: T, data: NodeEvents[T]): string {
  const { change, status, state } = data as { change?: unknown; status?: unknown; state?: unknown }
  return [type, change ?? status ?? state].filter((part) => typeof part === 'string').join('.')
}

/** Whether somebody who asked for `wanted` is told of `name`. */
export function isWanted(wanted: readonly string[], name: string): boolean {
  return wanted.includes(name) || wanted.includes(name.split('.', 1)[0]!)
}

/**
 * The headers that prove a message, as Standard Webhooks has them: the signature is over id, time and body, so that nobody
 * can change one of them or send it again much later.
 */
export function signedHeaders(message: {
  id: string
  body: string
  secret: string
  now: UnixMs
}): Record<string, string> {
  const { id, body, secret, now } = message
  const timestamp = String(Math.floor(now / 1000))
  const signature = createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.${body}`).digest('base64')
  return {
    'content-type': 'application/json',
    'user-agent': 'stoa',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${signature}`,
  }
}

function keyOf(secret: string): Buffer {
  return secret.startsWith('whsec_') ? Buffer.from(secret.slice('whsec_'.length), 'base64') : Buffer.from(secret)
}
