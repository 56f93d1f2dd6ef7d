import type { IncomingMessage, ServerResponse } from 'node:http'
import { parseJsonBody, readBytes } from '../lib/json-body.ts'
import { BODY_BYTES_MAX } from '../schema/limits.ts'
import { DoorError, invalidRequest } from './door-error.ts'

/** @throws DoorError; CodedError BODY_TOO_LARGE */
export async function readBody(request: IncomingMessage): Promise<unknown> {
  const { 'content-type': type, 'content-encoding': encoding } = request.headers
  // A page of any origin may send a form or `text/plain` without a preflight (T11).
  if (!/^application\/json *(?:;.*)?$/i.test(type ?? '')) {
    throw invalidRequest('body', 'send the body as Content-Type: application/json')
  }
  if (encoding !== undefined && encoding !== 'identity') {
    throw invalidRequest('body', 'send the body without Content-Encoding')
  }
  const body = parseJsonBody(await readBytes(request, BODY_BYTES_MAX))
  if (!body.ok) throw invalidRequest('body', body.reason)
  return body.value
}

/** A name in a path: SDKs escape `/` and `:`. */
export function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalidRequest('model', 'the path has a malformed percent escape')
  }
}

export function unknownPath(method: string, path: string): DoorError {
  const known = 'POST /v1/chat/completions, POST /v1/responses and GET /v1/models'
  const hint = path === '/completions' ? '. Set your client to chat completions' : ''
  const message = `the door has no ${method} /v1${path.slice(0, 100)}: it answers ${known}${hint}`
  return new DoorError(message, { status: 404, type: 'invalid_request_error', code: 'unknown_url' })
}

export function setHeaders(response: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
}

export function sendJson(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}

export function sendError(response: ServerResponse, error: DoorError, request: IncomingMessage): void {
  setHeaders(response, error.headers)
  // The unread rest of a body precedes the next request.
  if (!request.complete) response.setHeader('connection', 'close')
  sendJson(response, error.body, error.status)
}

export function refusalOf({ status, headers, body }: DoorError) {
  return { status, headers, body: JSON.stringify(body) }
}
