import type { IncomingMessage } from 'node:http'
import * as z from 'zod'
import { parseJsonBody, readBytes } from '../lib/json-body.ts'
import { BODY_BYTES_MAX } from '../schema/limits.ts'

/** A parsed body, or why it could not be parsed. `empty`: there was no body. */
export type Body =
  | { kind: 'json'; value: unknown }
  | { kind: 'empty' }
  | { kind: 'unsupported' | 'malformed'; reason: string }

const jsonTypes = /^application\/(?:a2a\+)?json *(?:;.*)?$/i

/**
 * Reads a request's JSON body up to the size limit. Refuses every other content type, even if the body would parse: a
 * page of any origin may send a form or `text/plain` (T11). @throws CodedError `BODY_TOO_LARGE`
 */
export async function readBody(request: IncomingMessage): Promise<Body> {
  const { 'content-type': type, 'content-encoding': encoding } = request.headers
  const bytes = await readBytes(request, BODY_BYTES_MAX)
  if (bytes.length === 0) return { kind: 'empty' }
  if (!jsonTypes.test(type ?? '')) {
    return { kind: 'unsupported', reason: 'send the body as Content-Type: application/json' }
  }
  if (encoding !== undefined && encoding !== 'identity') {
    return { kind: 'unsupported', reason: 'send the body without Content-Encoding' }
  }
  const body = parseJsonBody(bytes)
  if (!body.ok) return { kind: 'malformed', reason: body.reason }
  if (holdsOddText(body.value)) return { kind: 'malformed', reason: 'the text of a part must be a string' }
  return { kind: 'json', value: body.value }
}

/** The SDK would convert any value to text, and so change the task that the caller pays for. */
function holdsOddText(value: unknown): boolean {
  const parsed = WithMessage.safeParse(value)
  const message = parsed.data?.params?.message ?? parsed.data?.message
  const parts = [...(message?.parts ?? []), ...(message?.content ?? [])]
  return parts.some((part) => part?.text != null && typeof part.text !== 'string')
}

const Parts = z
  .array(z.looseObject({ text: z.unknown() }).nullish().catch(null))
  .nullish()
  .catch(null)
const Message = z.looseObject({ parts: Parts, content: Parts }).nullish().catch(null)
const WithMessage = z.looseObject({
  message: Message,
  params: z.looseObject({ message: Message }).nullish().catch(null),
})
