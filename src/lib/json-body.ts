import type { IncomingMessage } from 'node:http'
import { CodedError } from './errors.ts'

/** Levels of nesting in a JSON body. */
const NESTING_MAX = 64

type JsonBody = { ok: true; value: unknown } | { ok: false; reason: string }

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Reads a body of at most `bytesMax` bytes. @throws CodedError `BODY_TOO_LARGE` */
export async function readBytes(request: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  // Keep the connection open, so that the client reads the error.
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > bytesMax) throw new CodedError('BODY_TOO_LARGE', `the limit of a body is ${bytesMax} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** Parses a JSON body whose sender is not trusted, or says what is wrong with it. */
export function parseJsonBody(bytes: Uint8Array): JsonBody {
  try {
    const text = utf8.decode(bytes)
    // As a key, `__proto__` would change the prototype of objects built from this one.
    if (/"__proto__"\s*:/.test(text)) return { ok: false, reason: 'the body has the key __proto__' }
    if (isTooDeep(text)) return { ok: false, reason: `the body is nested deeper than ${NESTING_MAX} levels` }
    return { ok: true, value: JSON.parse(text) }
  } catch {
    return { ok: false, reason: 'the body is not JSON in UTF-8' }
  }
}

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
