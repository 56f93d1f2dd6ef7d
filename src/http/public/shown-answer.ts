import type { FastifyReply } from 'fastify'
import { type ServerSentEvent, sendEvents } from '../../lib/event-stream.ts'
import { PublicError } from './public-error.ts'
import type { ShownOutput } from './shown-output.ts'

/**
 * Answers with events: `output` while the agent works, then `result` or `error`. The last event holds everything, so a
 * client that reads slowly loses nothing.
 */
export async function sendShown(
  shown: ShownOutput,
  end: () => Promise<object | PublicError>,
  reply: FastifyReply,
): Promise<void> {
  async function* events(): AsyncGenerator<ServerSentEvent> {
    for await (const text of shown.texts()) yield { event: 'output', data: { text } }
    const last = await end()
    if (last instanceof PublicError) yield { event: 'error', text: last.body }
    else yield { event: 'result', data: last }
  }
  reply.hijack()
  // A hijacked reply loses the headers that were set.
  for (const [name, value] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value!)
  const left = new AbortController()
  reply.raw.once('close', () => left.abort())
  await sendEvents(reply.raw, events(), left.signal)
}
