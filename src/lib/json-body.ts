import type { IncomingMessage } from 'node:http'
import { makeRoom } from './body-room.ts'
import { CodedError } from './errors.ts'
import { GatheredBytes } from './gathered-bytes.ts'
import { type Json, readJson, utf8Text } from './json.ts'

/** Each piece takes 2 µs. In pieces of one byte, a sender would keep the node busy with a thousandth of the usual traffic. */
const PIECES_MAX = 1_024
const PIECE_BYTES_MIN = 32

/**
 * Reads a body of at most `bytesMax` bytes. It may come in many pieces, or in small ones, but not in many small ones.
 *
 * @throws CodedError `BODY_TOO_LARGE`, `INVALID_REQUEST`; the error of the connection; the refusal of `bodyInRoom`
 */
export async function readBytes(request: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const body = new GatheredBytes()
  let pieces = 0
  // Keep the connection open, so that the client reads the error.
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    if (body.length + chunk.length > bytesMax) throw bodyTooLarge(bytesMax)
    makeRoom(request, body.length + chunk.length)
    body.add(chunk)
    if (++pieces > PIECES_MAX && body.length < pieces * PIECE_BYTES_MIN) {
      throw new CodedError('INVALID_REQUEST', 'the body comes in thousands of small pieces: send it in larger ones')
    }
  }
  return body.bytes()
}

export function bodyTooLarge(bytesMax: number): CodedError {
  return new CodedError('BODY_TOO_LARGE', `the limit of a body is ${bytesMax} bytes`)
}

/** Parses a JSON body whose sender is not trusted, or says what is wrong with it. */
export function parseJsonBody(bytes: Uint8Array): Json {
  const text = utf8Text(bytes)
  if (text !== undefined && PROTOTYPE_KEY.test(text)) return { ok: false, reason: 'the body has the key __proto__' }
  const json = readJson(text ?? bytes)
  return json.ok ? json : { ok: false, reason: `the body ${json.reason}` }
}

/** As a key, `__proto__` would change the prototype of objects built from this one. JSON may write a letter as its number. */
const PROTOTYPE_KEY =
  /"(?:_|\\u005[Ff]){2}(?:p|\\u0070)(?:r|\\u0072)(?:o|\\u006[Ff])(?:t|\\u0074)(?:o|\\u006[Ff])(?:_|\\u005[Ff]){2}"\s*:/
