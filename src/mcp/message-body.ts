import type { IncomingMessage, ServerResponse } from 'node:http'
import { parseJsonBody, readBytes } from '../lib/json-body.ts'
import { BODY_BYTES_MAX } from '../schema/limits.ts'

type MessageBody = { isRefused: false; value: unknown } | { isRefused: true }

const PARSE_ERROR = -32700
const INVALID_REQUEST = -32600

/**
 * Reads the message of a request before the SDK does, which parses JSON of any depth and width. Answers a request whose body
 * cannot be a message. The value is undefined for a request without a body.
 *
 * @param options.isAlone refuses batches: a batch counts as one request, and the limits would not see its calls
 * @throws CodedError BODY_TOO_LARGE
 */
export async function readMessage(
  request: IncomingMessage,
  response: ServerResponse,
  { isAlone = false } = {},
): Promise<MessageBody> {
  if (request.method !== 'POST') return { isRefused: false, value: undefined }
  const bytes = await readBytes(request, BODY_BYTES_MAX)
  if (bytes.length === 0) return { isRefused: false, value: undefined }
  const body = parseJsonBody(bytes)
  const isBatch = body.ok && isAlone && Array.isArray(body.value) && body.value.length > 1
  if (body.ok && !isBatch) return { isRefused: false, value: body.value }
  const error = body.ok
    ? { code: INVALID_REQUEST, message: 'Invalid Request: send one message at a time' }
    : { code: PARSE_ERROR, message: `Parse error: ${body.reason}` }
  response.writeHead(400, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ jsonrpc: '2.0', error, id: null }))
  return { isRefused: true }
}
