import { createHash } from 'node:crypto'
import { readJson } from '../lib/json.ts'
import { parsePrice } from '../schema/amount.ts'
import { DoorError, invalidRequest, unsupported } from './door-error.ts'
import { taskOf } from './task.ts'

/** A request to the door, in either of its two forms. */
export type DoorRequest = {
  /** What the client asks for, its first choice first: agents, tags or `auto`. */
  models: readonly string[]
  task: string
  stream: boolean
  /** True if a streamed chat ends with a chunk of usage. */
  includeUsage: boolean
  /** The answer ends before the first of these texts. */
  stop: readonly string[]
  /** True if the answer must be JSON. */
  wantsJson: boolean
  /** The most to pay for this call, in atomic units. */
  maxPrice: bigint | undefined
  /** Fields that were sent and that no agent reads. */
  ignored: readonly string[]
  /** A hash of the content, as hex. The same request has the same digest, as a stream or not. */
  digest: string
}

const MODELS_MAX = 8
const MODEL_LENGTH_MAX = 256
const STOPS_MAX = 16
const STOP_LENGTH_MAX = 1_000

/** Fields that would change what the answer means, and that no agent can follow. */
const refused: Readonly<Record<string, (value: unknown) => string | undefined>> = {
  n: (n) => (n === 1 ? undefined : 'each request buys one answer: send n requests'),
  logprobs: (on) => (on === false ? undefined : 'agents give no probabilities'),
  top_logprobs: (count) => (count === 0 ? undefined : 'agents give no probabilities'),
  audio: () => 'agents answer with text only',
  modalities: (given) =>
    Array.isArray(given) && given.every((one) => one === 'text') ? undefined : 'agents answer with text only',
  background: (on) => (on === false ? undefined : 'use POST /orders for work in the background'),
  previous_response_id: () => 'the door keeps no conversations: send all messages',
  conversation: () => 'the door keeps no conversations: send all messages',
  prompt: (given) => (given === '' ? undefined : 'prompts that are stored elsewhere are not known here: send the text'),
  tool_choice: (choice) =>
    choice === 'auto' || choice === 'none' ? undefined : 'no agent calls tools of its buyer: use "auto" or "none"',
  functions: () => 'no agent calls functions of its buyer',
}
/** Fields that a client may send, and that change nothing here. `x-stoa-ignored` of the answer names them. */
const told = ['tools', 'max_tokens', 'max_completion_tokens', 'max_output_tokens']

/** Reads a body of `/v1/chat/completions`. Some clients send the form of the other endpoint to it. @throws DoorError */
export function readChat(body: unknown): DoorRequest {
  const fields = fieldsOf(body)
  const isChat = fields.messages !== undefined || fields.input === undefined
  const task = isChat
    ? taskOf(fields.messages, undefined, 'messages')
    : taskOf(fields.input, fields.instructions, 'input')
  return read(fields, task)
}

/** Reads a body of `/v1/responses`. @throws DoorError */
export function readResponses(body: unknown): DoorRequest {
  const fields = fieldsOf(body)
  return read(fields, taskOf(fields.input, fields.instructions, 'input'))
}

function read(fields: Record<string, unknown>, task: string): DoorRequest {
  for (const [name, why] of Object.entries(refused)) {
    const reason = fields[name] == null ? undefined : why(fields[name])
    if (reason !== undefined) throw unsupported(name, `${name}: ${reason}`)
  }
  const { stream, stream_options, ...asked } = fields
  if (stream != null && typeof stream !== 'boolean') throw invalidRequest('stream', 'stream must be true or false')
  return {
    models: modelsOf(fields),
    task,
    stream: stream === true,
    includeUsage: (stream_options as { include_usage?: unknown } | null | undefined)?.include_usage === true,
    stop: stopsOf(fields.stop),
    wantsJson: wantsJson(fields),
    maxPrice: maxPriceOf(fields.max_price),
    ignored: told.filter((name) => fields[name] != null && !(Array.isArray(fields[name]) && fields[name].length === 0)),
    digest: createHash('sha256').update(canonical(asked)).digest('hex'),
  }
}

function fieldsOf(body: unknown): Record<string, unknown> {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as Record<string, unknown>
  throw invalidRequest('body', 'send a JSON object')
}

/** `model`, then those of `models` (OpenRouter) or `fallbacks` (LiteLLM). */
function modelsOf({ model, models, fallbacks }: Record<string, unknown>): string[] {
  const more = [models, fallbacks].flatMap((list) => (Array.isArray(list) ? list : []))
  const given = [...(model == null ? [] : [model]), ...more]
  const names = given.map((name) => {
    if (typeof name === 'string' && name.trim() !== '' && name.length <= MODEL_LENGTH_MAX) return name.trim()
    throw invalidRequest('model', 'model must be the id or name of an agent, tag:<tag>, or auto')
  })
  if (names.length === 0) {
    throw invalidRequest('model', 'model is missing: give an agent, tag:<tag>, or auto. GET /v1/models lists them')
  }
  if (names.length > MODELS_MAX) throw invalidRequest('models', `models: at most ${MODELS_MAX} names`)
  return [...new Set(names)]
}

function stopsOf(stop: unknown): string[] {
  const stops = stop == null ? [] : [stop].flat()
  if (stops.length > STOPS_MAX) throw invalidRequest('stop', `stop: at most ${STOPS_MAX} texts`)
  return stops.map((text) => {
    if (typeof text === 'string' && text !== '' && text.length <= STOP_LENGTH_MAX) return text
    throw invalidRequest('stop', `stop must be a text of 1 to ${STOP_LENGTH_MAX} characters, or a list of such texts`)
  })
}

/** `response_format` of chats, `text.format` of responses. */
function wantsJson({ response_format: format, text }: Record<string, unknown>): boolean {
  const { type } = (format ?? (text as { format?: unknown } | null | undefined)?.format ?? {}) as { type?: unknown }
  if (type === undefined || type === null || type === 'text') return false
  if (type === 'json_object') return true
  throw unsupported('response_format', 'no agent promises a schema for its answer: use {"type": "json_object"} or text')
}

function maxPriceOf(given: unknown): bigint | undefined {
  if (given == null) return undefined
  try {
    if (typeof given === 'string' || typeof given === 'number') return parsePrice(given)
  } catch {
    // Answered below.
  }
  throw invalidRequest('max_price', 'max_price must be an amount in USDC, such as 0.02, with at most 6 decimals')
}

/** JSON with sorted keys, so that the order of a client's fields does not matter. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part
    return Object.fromEntries(Object.entries(part).toSorted(([one], [other]) => (one < other ? -1 : 1)))
  })
}

/** Checks what was asked for as JSON. It was paid for, so a wrong answer is not asked for again. */
export function refuseNoJson(output: string, orderId: string | undefined): void {
  const json = readJson(output)
  if (json.ok) return
  const where = orderId === undefined ? '' : `: order ${orderId} has it (stoa order show ${orderId})`
  throw new DoorError(`what the agent answered ${json.reason}${where}`, {
    ...{ status: 502, type: 'upstream_error', code: 'paid_but_failed' },
    headers: { 'x-should-retry': 'false' },
  })
}
