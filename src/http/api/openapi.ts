import * as z from 'zod'
import { Problem } from '../../schema/api.ts'
import { IdempotencyKey } from '../../schema/idempotency.ts'
import { type ProblemCode, problems } from '../server/problem.ts'
import { type Operation, refusesKey } from './operation.ts'

export type JsonSchema = { [key: string]: unknown }
type OpenApiResponse = { description: string; headers?: object; content: Record<string, { schema: JsonSchema }> }
export type OpenApiOperation = {
  operationId: string
  summary: string
  description?: string
  tags: readonly string[]
  security: object[]
  parameters?: {
    name: string
    in: 'path' | 'query' | 'header'
    required: boolean
    description?: string
    schema: JsonSchema
  }[]
  requestBody?: { required: true; content: Record<string, { schema: JsonSchema; example?: object }> }
  responses: Record<string, OpenApiResponse>
}
export type OpenApi = {
  openapi: '3.1.0'
  info: { title: string; version: string; description: string; license: object }
  servers: { url: string; description: string }[]
  tags: { name: string }[]
  paths: Record<string, Record<string, OpenApiOperation>>
  components: { schemas: Record<string, JsonSchema>; securitySchemes: object }
}

const description = `The local API of a Stoa node. Every path answers under /api too.

Errors are RFC 9457 problems (application/problem+json) with a stable \`code\`. Times are RFC 3339 in UTC. Prices are USDC;
\`…_atomic\` is the same in units of 0.000001. The loopback interface needs no credentials. Elsewhere send the token of
\`api.token\` as \`Authorization: Bearer\`.

The node is also an A2A server under \`/a2a/{id}\` (JSON-RPC, and HTTP+JSON under \`/a2a/{id}/rest\`, as each card says) and an
MCP server at \`/mcp\`. Both are protocols of their own.`

const KeyHeader = z.strictObject({ 'Idempotency-Key': IdempotencyKey.optional() })

/** Errors of every operation, and errors of every operation with a body. */
const always: readonly ProblemCode[] = [
  'INVALID_REQUEST',
  'HOST_NOT_ALLOWED',
  'INTERNAL',
  'STOPPING',
  'STORE_DAMAGED',
  'STORE_AWAY',
  'STORE_IN_DOUBT',
  'STORE_IN_USE',
  'STORE_REFUSED',
  'STORE_UNREADABLE',
  'LEDGER_COPIED',
  'LEDGER_LOST',
  'CLOCK_OFF',
]
const notHealth: readonly ProblemCode[] = ['TOKEN_REQUIRED', 'TOKEN_WRONG', 'SCOPE_TOO_LOW', 'TOO_MANY_ATTEMPTS']
const withBody: readonly ProblemCode[] = ['MALFORMED_JSON', 'BODY_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE']

/** An action without a body schema may still be sent a body. */
const withoutBody = ({ method }: Operation): readonly ProblemCode[] => (method === 'GET' ? [] : withBody)

/** Builds the OpenAPI 3.1 document from the rows and schemas that also route, check and encode. */
export function openApiDocument(rows: readonly Operation[], version: string): OpenApi {
  const schemas: Record<string, JsonSchema> = {}
  const paths: OpenApi['paths'] = {}
  for (const row of rows) {
    const path = paths[row.path] ?? {}
    path[row.method.toLowerCase()] = describe(row, schemas)
    paths[row.path] = path
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Stoa', version, description, license: { name: 'MIT', identifier: 'MIT' } },
    servers: [
      { url: '/', description: 'this node' },
      { url: '/api', description: 'the same, under the other prefix' },
    ],
    tags: [...new Set(rows.flatMap(({ tags }) => tags))].map((name) => ({ name })),
    paths,
    components: { schemas, securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
  }
}

function describe(row: Operation, schemas: Record<string, JsonSchema>): OpenApiOperation {
  const parameters = [
    ...describeParameters('path', row.params, schemas),
    ...describeParameters('query', row.query, schemas),
    ...(row.idempotent === true ? describeParameters('header', KeyHeader, schemas) : []),
  ]
  return {
    operationId: row.id,
    summary: row.summary,
    ...(row.description !== undefined && { description: row.description }),
    tags: row.tags,
    // `{}`: the loopback interface needs no token. A token needs at least the named scope.
    security: row.access === 'health' ? [] : [...(row.access === 'token' ? [] : [{}]), { token: [row.scope] }],
    ...(parameters.length > 0 && { parameters }),
    ...(row.body !== undefined && {
      requestBody: { required: true, content: { 'application/json': describeBody(row.body, row.example, schemas) } },
    }),
    responses: {
      [row.status]: {
        description: { 200: 'OK', 201: 'Created', 202: 'Accepted' }[row.status],
        ...describeHeaders(row, parameters),
        content: {
          [row.media ?? 'application/json']: { schema: wireSchema(row.response, schemas) },
          ...(row.otherMedia !== undefined && { [row.otherMedia]: { schema: { type: 'string' } } }),
          ...(row.streams && { 'text/event-stream': { schema: wireSchema(row.streams.response, schemas) } }),
        },
      },
      ...(row.also !== undefined && {
        [row.also.status]: {
          description: row.also.description,
          content: { 'application/json': { schema: wireSchema(row.also.response, schemas) } },
        },
      }),
      ...describeErrors(row, schemas),
    },
  }
}

function describeHeaders({ location }: Operation, parameters: readonly { name: string }[]): { headers?: object } {
  const text = { schema: { type: 'string' } }
  const isPaged = parameters.some(({ name }) => name === 'cursor')
  const headers = {
    ...(location !== undefined && { Location: text }),
    ...(isPaged && { Link: { description: 'If there is a next page: `<?cursor=…>; rel="next"` (RFC 8288)', ...text } }),
  }
  return Object.keys(headers).length === 0 ? {} : { headers }
}

function describeBody(type: z.ZodType, example: object | undefined, schemas: Record<string, JsonSchema>) {
  return { schema: wireSchema(type, schemas), ...(example !== undefined && { example }) }
}

function describeErrors(row: Operation, schemas: Record<string, JsonSchema>): Record<string, OpenApiResponse> {
  const schema = wireSchema(Problem, schemas)
  const codes = [
    ...row.errors,
    ...(row.idempotent === true ? (['IDEMPOTENCY_CONFLICT'] as const) : []),
    ...(refusesKey(row) ? (['IDEMPOTENCY_UNSUPPORTED'] as const) : []),
    ...always,
    ...(row.access === 'health' ? [] : notHealth),
    ...(row.params === undefined ? [] : (['URI_TOO_LONG'] as const)),
    ...(row.access === 'private' || row.access === 'token' ? (['ORIGIN_NOT_ALLOWED'] as const) : []),
    ...(row.body === undefined ? withoutBody(row) : withBody),
  ]
  const byStatus = Object.groupBy(new Set(codes), (code) => String(problems[code].status))
  const content = { 'application/problem+json': { schema } }
  const responses = Object.entries(byStatus).map(([status, list]): [string, OpenApiResponse] => [
    status,
    { description: list!.map((code) => `\`${code}\`: ${problems[code].title}.`).join(' '), content },
  ])
  return { ...Object.fromEntries(responses), default: { description: 'Any other error.', content } }
}

function describeParameters(
  place: 'path' | 'query' | 'header',
  type: z.ZodType | undefined,
  schemas: Record<string, JsonSchema>,
) {
  if (type === undefined) return []
  const { properties = {}, required = [] } = wireSchema(type, schemas) as {
    properties?: Record<string, JsonSchema>
    required?: string[]
  }
  return Object.entries(properties).map(([name, { description: text, ...schema }]) => ({
    name,
    in: place,
    required: required.includes(name),
    ...(typeof text === 'string' && { description: text }),
    schema,
  }))
}

/** The JSON Schema of a type as it is sent (the input side of codecs). Named types move to `schemas`. */
function wireSchema(type: z.ZodType, schemas: Record<string, JsonSchema>): JsonSchema {
  const {
    $schema: _,
    $defs = {},
    ...schema
  } = z.toJSONSchema(type, {
    io: 'input',
    override: ({ jsonSchema }) => plain(jsonSchema as JsonSchema),
  }) as JsonSchema
  for (const [name, definition] of Object.entries($defs as Record<string, JsonSchema>)) {
    schemas[name] = moveReferences(definition) as JsonSchema
  }
  const moved = moveReferences(schema) as JsonSchema
  const { id } = moved
  if (typeof id !== 'string') return moved
  schemas[id] = moved
  return { $ref: `#/components/schemas/${id}` }
}

/** Removes details without use for a reader: the limits of a double, and the pattern of a named format. */
function plain(schema: JsonSchema): void {
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum
  if (schema.format === 'date-time') delete schema.pattern
}

function moveReferences(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(moveReferences)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([key, inner]) =>
    key === '$ref' && typeof inner === 'string'
      ? [key, inner.replace('#/$defs/', '#/components/schemas/')]
      : [key, moveReferences(inner)],
  )
  return Object.fromEntries(entries)
}
