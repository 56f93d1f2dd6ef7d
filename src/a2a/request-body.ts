import type { IncomingMessage } from 'node:http'
import * as z from 'zod'
import { CodedError } from '../lib/errors.ts'
import { BODY_BYTES_MAX } from '../schema/limits.ts'

/** Levels of nesting in a JSON body. */
const NESTING_MAX = 64

/** A parsed body, or why it could not be parsed. `empty`: there was no body. */
export type Body =
  | { kind: 'json'; value: unknown }
  | { kind: 'empty' }
  | { kind: 'unsupported' | 'malformed'; reason: string }

const utf8 = new TextDecoder('utf-8', { fatal: true })
const jsonTypes = /^application\/(?:a2a\+)?json *(?:;.*)?$/i

/**
 * Reads a request's JSON body up to the size limit. Refuses every other content type, even if the body would parse: a
 * page of any origin may send a form or `text/plain` (T11). @throws CodedError `BODY_TOO_LARGE`
 */
export async function readBody(request: IncomingMessage): Promise<Body> {
  const { 'content-type': type, 'content-encoding': encoding } = request.headers
  const bytes = await readBytes(request)
  if (bytes.length === 0) return { kind: 'empty' }
  if (!jsonTypes.test(type ?? '')) {
    return { kind: 'unsupported', reason: 'send the body as Content-Type: application/json' }
  }
  if (encoding !== undefined && encoding !== 'identity') {
    return { kind: 'unsupported', reason: 'send the body without Content-Encoding' }
  }
  try {
    const text = utf8.decode(bytes)
    // As a key, `__proto__` would change the prototype of objects built from this one.
    if (/"__proto__"\s*:/.test(text)) return { kind: 'malformed', reason: 'the body has the key __proto__' }
    if (isTooDeep(text)) return { kind: 'malformed', reason: `the body is nested deeper than ${NESTING_MAX} levels` }
    const value: unknown = JSON.parse(text)
    if (holdsOddText(value)) return { kind: 'malformed', reason: 'the text of a part must be a string' }
    return { kind: 'json', value }
  } catch {
    return { kind: 'malformed', reason: 'the body is not JSON in UTF-8' }
  }
}

async function readBytes(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  // Keep the connection open, so that the client reads the error.
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > BODY_BYTES_MAX)
      throw new CodedError('BODY_TOO_LARGE', `the limit of a body is ${BODY_BYTES_MAX} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
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

/** Later code parses and copies JSON recursively, so limit the depth. */
function isTooDeep(text: string): boolean {
  let depth = 0
  let isInside = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (isInside) {
      if (code === BACKSLASH) i++
      else if (code === QUOTE) isInside = false
    } else if (code === QUOTE) isInside = true
    else if (code === BRACE || code === BRACKET) {
      if (++depth > NESTING_MAX) return true
    } else if (code === BRACE_END || code === BRACKET_END) depth--
  }
  return false
}

const QUOTE = 34
const BACKSLASH = 92
const BRACKET = 91
const BRACKET_END = 93
const BRACE = 123
const BRACE_END = 125
