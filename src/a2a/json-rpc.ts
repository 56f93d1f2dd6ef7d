// By hand around the SDK's transport: its Express handler prints callers' errors and lets streams fall silent (ADR-24).
import type { ServerResponse } from 'node:http'
import { A2A_VERSION_HEADER, HTTP_EXTENSION_HEADER, SSE_HEADERS } from '@a2a-js/sdk'
import { LEGACY_HTTP_EXTENSION_HEADER } from '@a2a-js/sdk/compat/v0_3'
import { LegacyJsonRpcTransportHandler } from '@a2a-js/sdk/compat/v0_3/server'
import { ContentTypeNotSupportedError } from '@a2a-js/sdk/errors'
import { type A2ARequestHandler, JsonRpcTransportHandler, validateVersion } from '@a2a-js/sdk/server'
import type { A2aCall } from './call.ts'
import { callContext } from './call-context.ts'
import { startEventStream } from './event-stream.ts'
import type { Body } from './request-body.ts'

const PARSE_ERROR = -32700
const INVALID_PARAMS = -32602

/**
 * Answers one JSON-RPC request, 1.0 or 0.3 by its version header, with one JSON answer or a stream. Errors are JSON-RPC
 * errors with status 200, as the specification says. A stream is read to its end even if the caller has left, because
 * reading it stores the task.
 */
export async function answerJsonRpc(call: A2aCall, body: Body, handler: A2ARequestHandler): Promise<void> {
  const { request, response } = call
  const version = header(request.headers[A2A_VERSION_HEADER.toLowerCase()]) || '0.3'
  const isLegacy = version === '0.3'
  const transport = isLegacy ? new LegacyJsonRpcTransportHandler(handler) : new JsonRpcTransportHandler(handler)
  const errorOf = isLegacy
    ? LegacyJsonRpcTransportHandler.mapToLegacyJSONRPCError
    : JsonRpcTransportHandler.mapToJSONRPCError
  const fail = (error: object, id: unknown = null) => sendJson(response, { jsonrpc: '2.0', id, error })

  if (body.kind === 'unsupported') return fail(errorOf(new ContentTypeNotSupportedError(body.reason)))
  if (body.kind === 'invalid') return fail({ code: INVALID_PARAMS, message: body.reason }, idOf(body.value))
  if (body.kind !== 'json') {
    return fail({ code: PARSE_ERROR, message: body.kind === 'malformed' ? body.reason : 'the body is empty' })
  }
  const id = idOf(body.value)
  const context = callContext(call, version)
  try {
    validateVersion(version, await handler.getAgentCard(), 'JSONRPC')
    const answer = await transport.handle(body.value as Record<string, unknown>, context)
    const activated = [...(context.activatedExtensions ?? [])]
    const name = isLegacy ? LEGACY_HTTP_EXTENSION_HEADER : HTTP_EXTENSION_HEADER
    if (!isStream(answer)) {
      if (activated.length > 0) response.setHeader(name, activated.join(', '))
      return sendJson(response, answer)
    }
    const first = await answer.next()
    const later = [...(context.activatedExtensions ?? [])]
    if (later.length > 0) response.setHeader(name, later.join(', '))
    if (first.done) return fail({ code: -32603, message: 'the stream ended before it began' }, id)
    const stream = startEventStream(response, SSE_HEADERS)
    try {
      stream.send(first.value)
      for await (const event of answer) stream.send(event)
    } catch (error) {
      stream.fail({ jsonrpc: '2.0', id, error: errorOf(error) })
    } finally {
      stream.end()
    }
  } catch (error) {
    fail(errorOf(error), id)
  }
}

function sendJson(response: ServerResponse, value: unknown): void {
  if (response.destroyed) return
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify(value))
}

function idOf(value: unknown): unknown {
  const id = typeof value === 'object' && value !== null && 'id' in value ? value.id : null
  return typeof id === 'string' || typeof id === 'number' ? id : null
}

function isStream(answer: object): answer is AsyncGenerator<object, void, undefined> {
  return Symbol.asyncIterator in answer
}

function header(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value
}
