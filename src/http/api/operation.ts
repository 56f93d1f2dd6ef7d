import type { IncomingHttpHeaders } from 'node:http'
import * as z from 'zod'
import type { ServerSentEvent } from '../../lib/event-stream.ts'
import type { Logger } from '../../lib/logger.ts'
import type { Caller, Scope } from '../../schema/caller.ts'
import { IdempotencyKey } from '../../schema/idempotency.ts'
import type { Page } from '../../schema/page.ts'
import { HttpError, invalid, type ProblemCode } from '../server/problem.ts'
import type { Access } from '../server/security.ts'

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** The input of a handler. `signal` aborts when the client has left or the node stops. */
export type Call<Params, Query, Body> = {
  readonly params: Params
  readonly query: Query
  readonly body: Body
  /** The address of this node as the caller used it: `http://127.0.0.1:8424`. */
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly caller: Caller
  /** Requests with the same key and content are done once (D38). */
  readonly idempotencyKey: string | undefined
  readonly signal: AbortSignal
}

/** One row of the API. Routing, checks and documentation come from it. Paths have no `/api` prefix. */
export type Operation = {
  /** Unique operationId of the OpenAPI document. */
  id: string
  method: Method
  /** OpenAPI form: `/agents/{id}`. */
  path: string
  summary: string
  description?: string
  tags: readonly string[]
  access: Access
  /** The lowest scope that a token needs. Without a token, on loopback, everything is allowed. */
  scope: Scope
  /** Parameters that reveal the operator's data. A public read with one of them is private. */
  privateQuery?: readonly string[]
  params?: z.ZodType
  query?: z.ZodType
  body?: z.ZodType
  example?: object
  /** Longest body in bytes. Default: BODY_BYTES_MAX. */
  bodyBytesMax?: number
  /** Fields of the body that only the operator may set. They are refused with 403 and this reason. */
  operatorFields?: { names: readonly string[]; reason: string }
  response: z.ZodType
  status: 200 | 201 | 202
  /** Another success status, sent by a {@link Reply} with that status. */
  also?: { status: 200 | 202; response: z.ZodType; description: string }
  /** Media type of the response if it is not JSON. The handler then returns text or an {@link EventStream}. */
  media?: 'text/html' | 'text/plain' | 'text/event-stream'
  /** Another format of the same answer, sent by a {@link Reply} with that media type and a text body. */
  otherMedia?: 'text/csv'
  /** The same success as server-sent events, for a client that asks for them. */
  streams?: { response: z.ZodType; description: string }
  /** Headers of a successful response, in addition to those of every response. */
  headers?: Readonly<Record<string, string>>
  /** Accepts the header Idempotency-Key (D38). */
  idempotent?: boolean
  /** A POST that is safe to repeat: it ignores the header. Other POSTs without key support refuse it. */
  repeatable?: boolean
  /** Errors in addition to those of every operation. */
  errors: readonly ProblemCode[]
  /** Path of the created resource, without the prefix. */
  location?(result: unknown): string
  handler(call: Call<unknown, unknown, unknown>): unknown
}

type TypedRow<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, R extends z.ZodType> = {
  params?: P
  query?: Q
  body?: B
  response: R
  /** Default: 200. */
  status?: Operation['status']
  /** Default: none. */
  errors?: Operation['errors']
  location?(result: z.output<R>): string
  handler(call: Call<z.output<P>, z.output<Q>, z.output<B>>): HandlerResult<R> | Promise<HandlerResult<R>>
}
type HandlerResult<R extends z.ZodType> = z.output<R> | Reply<unknown> | EventStream

/** An answer with more than a body: the cursor of the next page, or another status or media type of its row. */
export class Reply<T> {
  readonly body: T
  readonly next: string | undefined
  readonly status: number | undefined
  readonly media: string | undefined

  constructor(body: T, { next, status, media }: { next?: string | undefined; status?: number; media?: string } = {}) {
    this.body = body
    this.next = next
    this.status = status
    this.media = media
  }
}

export class EventStream {
  readonly events: AsyncIterable<ServerSentEvent>

  constructor(events: AsyncIterable<ServerSentEvent>) {
    this.events = events
  }
}

/** A page of a list: its items, and a `Link` header to the next page (RFC 8288). */
export function paged<T>({ items, next }: Page<T>): Reply<T[]> {
  return new Reply(items, { next })
}

/** Builds a row. The types check the handler against the row's schemas. */
export function operation<
  R extends z.ZodType,
  P extends z.ZodType = z.ZodUndefined,
  Q extends z.ZodType = z.ZodUndefined,
  B extends z.ZodType = z.ZodUndefined,
>(row: Omit<Operation, keyof TypedRow<P, Q, B, R>> & TypedRow<P, Q, B, R>): Operation {
  return { status: 200, errors: [], ...row } as unknown as Operation
}

type RawCall = {
  params: unknown
  query: unknown
  body: unknown
  url: string
  headers: IncomingHttpHeaders
  caller: Caller
  signal(): AbortSignal
}
type Answer = { status: number; text: string; media: string; headers: Readonly<Record<string, string>> }

/** Parses, calls the handler and encodes. @throws HttpError for invalid input, and the handler's errors */
export async function answer(row: Operation, raw: RawCall, logger: Logger): Promise<Answer | EventStream> {
  const idempotencyKey = readKey(row, raw.headers['idempotency-key'])
  const call: Call<unknown, unknown, unknown> = {
    params: parse(row.params, 'path', raw.params),
    query: parseQuery(row, raw.query),
    body: parseBody(row, raw.body),
    url: raw.url,
    headers: raw.headers,
    caller: raw.caller,
    idempotencyKey,
    get signal() {
      return raw.signal()
    },
  }
  const result = await row.handler(call)
  if (result instanceof EventStream) return result
  const { body, next, status = row.status, media = row.media } = result instanceof Reply ? result : new Reply(result)
  const isOther = status !== row.status && status === row.also?.status
  const response = isOther ? row.also!.response : row.response
  return {
    status,
    text: media === undefined ? JSON.stringify(encode(row.id, response, body, logger)) : String(body),
    media: media === undefined ? 'application/json' : `${media}; charset=utf-8`,
    headers: {
      ...row.headers,
      ...(row.location !== undefined && !isOther && { location: row.location(body) }),
      ...(next !== undefined && { link: linkToNext(raw.query, next) }),
    },
  }
}

/** A client that sends a key relies on it, so an operation that would ignore it refuses it (D38). */
export function refusesKey({ method, idempotent, repeatable }: Operation): boolean {
  return method === 'POST' && idempotent !== true && repeatable !== true
}

function readKey(row: Operation, header: string | string[] | undefined): string | undefined {
  if (header === undefined || row.repeatable === true) return undefined
  if (refusesKey(row)) {
    const why = `${row.method} ${row.path} takes no Idempotency-Key: each request is done again`
    throw new HttpError('IDEMPOTENCY_UNSUPPORTED', `${why}. Send the request once, without the header`)
  }
  if (row.idempotent !== true) return undefined
  const key = IdempotencyKey.safeParse(header)
  if (key.success) return key.data
  throw new HttpError('INVALID_REQUEST', `the header Idempotency-Key ${key.error.issues[0]!.message}`)
}

/** Links to the same request with another cursor. Only a query, so that the link works under both prefixes. */
function linkToNext(query: unknown, cursor: string): string {
  const parameters = new URLSearchParams({ ...(query as Record<string, string>), cursor })
  return `<?${parameters}>; rel="next"`
}

function parse(schema: z.ZodType | undefined, part: 'path' | 'query' | 'body', value: unknown): unknown {
  if (schema === undefined) return undefined
  if (part === 'path') refuseEmpty(value as object)
  const parsed = z.safeDecode(schema, value as never)
  if (!parsed.success) throw invalid(part, parsed.error)
  return parsed.data
}

/** Refuses an empty id in the path, such as `/agents//execute`. */
function refuseEmpty(params: object): void {
  const empty = Object.entries(params).find(([, text]) => text === '')
  if (empty !== undefined) throw new HttpError('NOT_FOUND', `the path has no ${empty[0]}. GET /docs lists all paths`)
}

function parseQuery(row: Operation, query: unknown): unknown {
  if (row.query !== undefined) return parse(row.query, 'query', query)
  const names = Object.keys(query as object)
  // Unknown parameters are refused: `?dry_run=true` may have been meant to prevent an action, or another to narrow a
  // read.
  if (names.length === 0) return undefined
  const path = names[0]!.slice(0, 100)
  const issues = [{ path, message: 'is not a parameter of this operation' }]
  throw new HttpError('INVALID_REQUEST', `query: ${path} is not a parameter of this operation`, { issues })
}

function parseBody(row: Operation, body: unknown): unknown {
  if (row.body === undefined) return undefined
  const refused = row.operatorFields?.names.find((name) => isObject(body) && Object.hasOwn(body, name))
  if (refused !== undefined) throw new HttpError('FIELD_NOT_ALLOWED', `${refused}: ${row.operatorFields!.reason}`)
  if (!isObject(body)) throw new HttpError('INVALID_REQUEST', 'body: send a JSON object')
  return parse(row.body, 'body', body)
}

/** Encodes the response by its schema, so that it matches the OpenAPI document. */
function encode(id: string, response: z.ZodType, result: unknown, logger: Logger): unknown {
  const encoded = z.safeEncode(response, result as never)
  if (encoded.success) return encoded.data
  if (!(response instanceof z.ZodArray) || !Array.isArray(result)) throw encoded.error
  // One element that cannot be encoded must not hide the others.
  const element = response.element as z.ZodType
  return result.flatMap((item) => {
    const one = z.safeEncode(element, item as never)
    if (one.success) return [one.data]
    logger.error({ operation: id, err: one.error }, 'left out an element that does not fit the response schema')
    return []
  })
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
