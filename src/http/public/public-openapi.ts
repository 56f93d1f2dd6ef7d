import { formatPrice } from '../../schema/amount.ts'

/** The answer to `GET /x402`: every agent that strangers can buy. */
export type PublicIndex = {
  /** CAIP-2. */
  network: string
  /** The contract of the token that pays. */
  asset: string
  agents: SoldAgent[]
}
export type SoldAgent = {
  agent_id: string
  name: string
  description: string
  tags: readonly string[]
  /** In atomic units of the asset, as text. */
  price_atomic: string
  url: string
  method: 'POST'
}

const text = { type: 'string' }
const object = (properties: object, required: readonly string[] = Object.keys(properties)) => ({
  type: 'object',
  properties,
  required,
})
const ref = (kind: 'schemas' | 'responses' | 'parameters' | 'requestBodies' | 'headers', name: string) => ({
  $ref: `#/components/${kind}/${name}`,
})
const json = (schema: object) => ({ 'application/json': { schema } })

/** Base64 of a JSON object of x402. */
const header = (description: string) => ({ description, schema: text })
const parameter = (name: string, description: string) => ({ name, in: 'header', description, schema: text })

const components = {
  schemas: {
    Task: object({ task: { ...text, minLength: 1, description: 'The task for the agent' } }),
    Result: object({ result: text }),
    Error: object({
      error: object({ code: text, detail: text, settlement: { enum: ['none', 'unknown', 'settled'] } }, [
        'code',
        'detail',
      ]),
    }),
    PaymentRequired: object({
      x402Version: { const: 1 },
      error: text,
      accepts: { type: 'array', items: { type: 'object' } },
    }),
    SoldAgent: object({
      ...{ agent_id: text, name: text, description: text, tags: { type: 'array', items: text } },
      ...{ price_atomic: { ...text, pattern: '^\\d+$' }, url: text, method: { const: 'POST' } },
    }),
  },
  headers: {
    Response: header('The settlement and its receipts (x402 v2). Version 1 gets X-PAYMENT-RESPONSE.'),
    Required: header('What a payment must be (x402 v2). Version 1 reads the body.'),
  },
  parameters: {
    V2: parameter('PAYMENT-SIGNATURE', 'The payment: base64 of the signed object of x402 v2'),
    V1: parameter('X-PAYMENT', 'The payment, as x402 v1 has it'),
  },
  requestBodies: {
    Task: {
      required: true,
      content: { ...json(ref('schemas', 'Task')), 'text/plain': { schema: { ...text, minLength: 1 } } },
    },
  },
  responses: {
    Result: {
      description: 'What the agent answers, in the form of the task',
      headers: { 'PAYMENT-RESPONSE': ref('headers', 'Response') },
      content: { ...json(ref('schemas', 'Result')), 'text/plain': { schema: text } },
    },
    Stream: {
      description: 'Events: output with {"text"}, then result with {"result", "payment"}, or error',
      headers: { 'PAYMENT-RESPONSE': ref('headers', 'Response') },
      content: { 'text/event-stream': {} },
    },
    Asked: {
      description: 'No payment, or not as asked: sign one, and send the same request with it',
      headers: { 'PAYMENT-REQUIRED': ref('headers', 'Required') },
      content: json(ref('schemas', 'PaymentRequired')),
    },
    Refused: { description: 'Refused. `settlement` says where the money is', content: json(ref('schemas', 'Error')) },
  },
}

/** The public listener as an OpenAPI 3.1 document, with one path for each agent. `url`: where clients reach it. */
export function publicOpenApi(
  { network, asset, agents }: PublicIndex,
  { version, url }: { version: string; url: string },
) {
  const listed = {
    description: 'The agents for sale',
    content: json(object({ network: text, asset: text, agents: arrayOf('SoldAgent') })),
  }
  const index = {
    operationId: 'listAgents',
    summary: 'The agents for sale, with their prices',
    responses: { 200: listed, default: ref('responses', 'Refused') },
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Agents for sale', version, description: `Paid by x402 in USDC (${asset} on ${network}).` },
    servers: [{ url }],
    paths: Object.fromEntries([['/x402', { get: index }], ...agents.flatMap(pathsOf)]),
    components,
  }
}

function arrayOf(name: string): object {
  return { type: 'array', items: ref('schemas', name) }
}

function pathsOf({ agent_id: id, name, description, tags, price_atomic: price }: SoldAgent): [string, object][] {
  const amount = formatPrice(BigInt(price))
  const isFree = price === '0'
  const operation = (operationId: string, summary: string, response: 'Result' | 'Stream') => ({
    ...{ operationId, summary, description, tags },
    // Catalogs of x402 read prices from this field.
    ...(!isFree && {
      'x-payment-info': { price: { mode: 'fixed', currency: 'USD', amount }, protocols: [{ x402: {} }] },
    }),
    ...(!isFree && { parameters: [ref('parameters', 'V2'), ref('parameters', 'V1')] }),
    requestBody: ref('requestBodies', 'Task'),
    responses: {
      200: ref('responses', response),
      ...(!isFree && { 402: ref('responses', 'Asked') }),
      default: ref('responses', 'Refused'),
    },
  })
  return [
    [`/x402/${id}`, { post: operation(`run_${id}`, name, 'Result') }],
    [`/x402/${id}/stream`, { post: operation(`stream_${id}`, `${name}, as a stream that is paid first`, 'Stream') }],
  ]
}
