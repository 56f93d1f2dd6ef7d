/* One entry of agents.yaml. What a field may hold is in schema/agent.ts. agents-yaml.ts is the entrance. */

import { isMap, isScalar, isSeq, type Node, type ParsedNode } from 'yaml'
import * as z from 'zod'
import { AgentDefinition } from '../schema/agent.ts'
import { McpTool, Operation, ToolServer } from '../schema/agent-service.ts'
import { formatPrice, parsePrice } from '../schema/amount.ts'
import {
  ANSWER_TOKENS_MAX,
  DESCRIPTION_LENGTH_MAX,
  INSTRUCTIONS_LENGTH_MAX,
  MODEL_LENGTH_MAX,
  NAME_LENGTH_MAX,
  RESULT_BYTES_MAX,
  RUN_SECONDS_MAX,
  TAG_LENGTH_MAX,
  TAGS_MAX,
} from '../schema/limits.ts'
import { Pricing } from '../schema/pricing.ts'
import { nearest, quote } from './config-error.ts'

/** How a field of an agent's entry is written, and what errors say it should be. */
type Field = {
  kind: 'text' | 'texts' | 'price' | 'integer' | 'number' | 'boolean' | 'servers' | 'pricing' | 'service'
  /** The schema of a `service`. */
  schema?: z.ZodType
  expected: string
  /** Not shown in errors, because some people paste the key itself here. */
  isUnshown?: true
}

const fields: Readonly<Record<keyof AgentDefinition, Field>> = {
  name: {
    kind: 'text',
    expected: `text of 1 to ${NAME_LENGTH_MAX} characters without control characters or invisible ones`,
  },
  description: { kind: 'text', expected: `text of 1 to ${DESCRIPTION_LENGTH_MAX} characters` },
  price: { kind: 'price', expected: 'USDC from 0 to 1000000 with at most 6 decimals, such as 0.05' },
  pricing: {
    kind: 'pricing',
    expected:
      'prices in USDC by use: max, and at least one of per_call, per_1k_input_tokens, per_1k_output_tokens and per_second',
  },
  model: {
    kind: 'text',
    expected: `text of 1 to ${MODEL_LENGTH_MAX} characters, such as openai/<model> or builtin/summarize`,
  },
  model_url: {
    kind: 'text',
    expected: 'the http(s) base URL of a server with the API of OpenAI, such as http://127.0.0.1:8000/v1',
    isUnshown: true,
  },
  command: {
    kind: 'texts',
    expected: 'a program and its arguments as a list of at most 64, such as [python3, agent.py]',
  },
  http: {
    kind: 'text',
    expected: 'the http(s) URL of a service that gets the task by POST and answers with the result',
    isUnshown: true,
  },
  module: { kind: 'text', expected: 'the path of a JavaScript or TypeScript file, such as ./agent.ts' },
  a2a: {
    kind: 'text',
    expected: 'the http(s) URL of an A2A agent or of its card, such as https://agents.example/a',
    isUnshown: true,
  },
  max_price: { kind: 'price', expected: 'USDC above 0 and up to 1000000 with at most 6 decimals, such as 0.05' },
  mcp_tool: {
    kind: 'service',
    schema: McpTool,
    expected: 'command: [program, …] or url: https://…, and tool: name, and optionally input_schema',
  },
  operation: {
    kind: 'service',
    schema: Operation,
    expected: 'method: GET and url: https://…, and optionally parameters, body, key and input_schema',
  },
  worker: { kind: 'boolean', expected: 'true, for an agent that workers run' },
  mcp: {
    kind: 'servers',
    expected:
      'a list of 1 to 8 MCP servers, each with command: [program, …] or url: https://…, and optionally tools: [names] and token_env: NAME',
  },
  instructions: { kind: 'text', expected: `text of 1 to ${INSTRUCTIONS_LENGTH_MAX} characters`, isUnshown: true },
  instructions_file: { kind: 'text', expected: 'the path of a text file, such as ./translator.md' },
  temperature: { kind: 'number', expected: 'a number from 0 to 2' },
  max_output_tokens: { kind: 'integer', expected: `a whole number from 1 to ${ANSWER_TOKENS_MAX}` },
  reasoning: { kind: 'text', expected: 'one of none, minimal, low, medium, high, xhigh and max' },
  tags: {
    kind: 'texts',
    expected: `a list of at most ${TAGS_MAX} tags of 1 to ${TAG_LENGTH_MAX} characters, such as [text, summary]`,
  },
  image: { kind: 'text', expected: 'the https URL of a picture, without user name and password', isUnshown: true },
  timeout_seconds: { kind: 'integer', expected: `a whole number from 1 to ${RUN_SECONDS_MAX}` },
  output_bytes_max: { kind: 'integer', expected: `a whole number from 1 to ${RESULT_BYTES_MAX}` },
  runs_max: { kind: 'integer', expected: 'a whole number from 1 to 1000' },
  streaming: { kind: 'text', expected: 'one of owed_once_shown, off and after_settlement' },
  paused: { kind: 'boolean', expected: 'true or false' },
  api_key_env: {
    kind: 'text',
    expected: 'the NAME of an environment variable, such as OPENAI_API_KEY',
    isUnshown: true,
  },
}
const fieldNames = Object.keys(fields) as (keyof AgentDefinition)[]

/** An entry as in YAML and JSON: the price is a number. */
type AgentEntry = Partial<Record<keyof AgentDefinition, unknown>>

/** The entry of an agent, with keys in the order of the documentation. Absent keys are left out. */
export function entryOf(definition: AgentDefinition): AgentEntry {
  const entry: AgentEntry = {}
  for (const name of fieldNames) {
    const given = definition[name]
    const value = name === 'pricing' && given !== undefined ? z.encode(Pricing, given as Pricing) : plain(given)
    if (value !== undefined) entry[name] = value
  }
  return entry
}

const plain = (value: unknown) => (typeof value === 'bigint' ? Number(formatPrice(value)) : value)

/** Reports a problem at an offset of the file. */
type Report = (offset: number | undefined, message: string) => void

/** Reads one entry. Sends problems to `report`, and returns undefined if there are any. */
export function readEntry(node: ParsedNode | null, report: Report): AgentDefinition | undefined {
  if (!isMap(node)) {
    report(node?.range[0], 'expected an agent, with name, description and price')
    return undefined
  }
  const entry: AgentEntry = {}
  const places = new Map<string, number | undefined>()
  let isRead = true
  const refuse = (offset: number | undefined, message: string) => {
    report(offset, message)
    isRead = false
  }
  for (const { key, value } of node.items) {
    const offset = key.range?.[0]
    const name = isScalar(key) ? scalarText(key) : ''
    if (!isFieldName(name)) refuse(offset, unknownKey(name))
    else if (places.has(name)) refuse(offset, `${name} is given twice`)
    else {
      places.set(name, offset)
      const read = isUnset(value) ? undefined : readValue(value, fields[name])
      if (read !== undefined && 'problem' in read) refuse(offset, `${name}: ${read.problem}`)
      else if (read !== undefined) entry[name] = read.value
    }
  }
  if (!isRead) return undefined
  const parsed = AgentDefinition.safeParse(entry)
  if (parsed.success) return parsed.data
  for (const { path, code, message } of parsed.error.issues) {
    const name = String(path[0]) as keyof AgentDefinition
    const given = entry[name]
    if (given === undefined) report(node.range[0], `${name} is missing: expected ${fields[name].expected}`)
    else report(places.get(name), `${name}: ${code === 'custom' ? message : notValid(given, fields[name])}`)
  }
  return undefined
}

/** True if a key or value was left empty. */
export function isUnset(node: Node | null): boolean {
  return node === null || (isScalar(node) && node.value === null)
}

/** The text of a scalar as written: `0.10` stays `0.10`, and `2048`, `true` or `1e-6` keep their characters. */
export function scalarText(node: Node): string {
  if (!isScalar(node)) return ''
  return typeof node.value === 'string' ? node.value : (node.source ?? String(node.value))
}

type ReadResult = { value: unknown } | { problem: string }

function readValue(node: ParsedNode | null, field: Field): ReadResult {
  if (field.kind === 'texts') {
    const items: (Node | null)[] = isSeq(node) ? node.items : []
    if (!isSeq(node) || !items.every((item) => isScalar(item) && item.value !== null)) {
      return { problem: `expected ${field.expected}` }
    }
    return { value: items.map((item) => scalarText(item!)) }
  }
  if (field.kind === 'servers') return readServers(node, field)
  if (field.kind === 'pricing') return readPricing(node, field)
  if (field.schema !== undefined) return readService(node, field.schema, field)
  if (!isScalar(node)) return { problem: `expected ${field.expected}` }
  const text = scalarText(node)
  if (field.kind === 'text') return { value: text }
  if (field.kind === 'boolean')
    return text === 'true' || text === 'false' ? { value: text === 'true' } : { problem: notValid(text, field) }
  if (field.kind === 'integer')
    return /^[0-9]{1,9}$/.test(text) ? { value: Number(text) } : { problem: notValid(text, field) }
  if (field.kind === 'number')
    return /^[0-9]{1,3}(\.[0-9]{1,6})?$/.test(text) ? { value: Number(text) } : { problem: notValid(text, field) }
  try {
    return { value: Number(formatPrice(parsePrice(text))) }
  } catch {
    return { problem: notValid(text, field) }
  }
}

const serverFields: Readonly<Record<keyof ToolServer, Field>> = {
  command: { kind: 'texts', expected: 'a program and its arguments as a list of at most 64' },
  url: { kind: 'text', expected: 'an http(s) URL', isUnshown: true },
  tools: { kind: 'texts', expected: 'a list of at most 64 names of tools' },
  token_env: { kind: 'text', expected: 'the NAME of an environment variable', isUnshown: true },
}

function readServers(node: ParsedNode | null, field: Field): ReadResult {
  if (!isSeq(node)) return { problem: `expected ${field.expected}` }
  const servers: object[] = []
  for (const item of node.items) {
    if (!isMap(item)) return { problem: `expected ${field.expected}` }
    const server: Record<string, unknown> = {}
    for (const { key, value } of item.items) {
      const name = isScalar(key) ? scalarText(key) : ''
      if (!Object.hasOwn(serverFields, name)) {
        return { problem: `${quote(name)} is not known: expected ${Object.keys(serverFields).join(', ')}` }
      }
      const read = readValue(value as ParsedNode | null, serverFields[name as keyof ToolServer])
      if ('problem' in read) return { problem: `${name}: ${read.problem}` }
      server[name] = read.value
    }
    const parsed = ToolServer.safeParse(server)
    if (!parsed.success) {
      const { path, message } = parsed.error.issues[0]!
      return { problem: `${path.length === 0 ? '' : `${path.join('.')} `}${message}` }
    }
    servers.push(parsed.data)
  }
  return { value: servers }
}

/** Services hold JSON Schemas, so their values keep the types that YAML gives them. */
function readService(node: ParsedNode | null, schema: z.ZodType, { expected }: Field): ReadResult {
  if (!isMap(node)) return { problem: `expected ${expected}` }
  const given = plainOf(node)
  const parsed = schema.safeParse(given)
  if (parsed.success) return { value: given }
  const { path, message } = parsed.error.issues[0]!
  return { problem: `${path.length === 0 ? '' : `${path.join('.')} `}${message}` }
}

function plainOf(node: unknown): unknown {
  if (isSeq(node)) return node.items.map(plainOf)
  if (isScalar(node)) return node.value
  // `fromEntries` makes a plain field of a key that is called __proto__.
  if (isMap(node)) return Object.fromEntries(node.items.map(({ key, value }) => [keyText(key), plainOf(value)]))
  return null
}

const keyText = (key: unknown) => (isScalar(key) ? scalarText(key) : '')

function readPricing(node: ParsedNode | null, field: Field): ReadResult {
  if (!isMap(node)) return { problem: `expected ${field.expected}` }
  const given: Record<string, unknown> = {}
  for (const { key, value } of node.items) {
    const name = isScalar(key) ? scalarText(key) : ''
    if (!Object.hasOwn(Pricing.shape, name)) {
      return { problem: `${quote(name)} is not known: expected ${Object.keys(Pricing.shape).join(', ')}` }
    }
    const read = readValue(value as ParsedNode | null, fields.price)
    if ('problem' in read) return { problem: `${name}: ${read.problem}` }
    given[name] = read.value
  }
  const parsed = Pricing.safeParse(given)
  if (parsed.success) return { value: given }
  const { path, message } = parsed.error.issues[0]!
  if (given.max === undefined) return { problem: 'max is missing: expected the most that one call costs, in USDC' }
  return { problem: `${path.length === 0 ? '' : `${path.join('.')} `}${message}` }
}

function notValid(given: unknown, { expected, isUnshown }: Field): string {
  return `${isUnshown ? 'the value' : quote(given)} is not valid: expected ${expected}`
}

function isFieldName(name: string): name is keyof AgentDefinition {
  return Object.hasOwn(fields, name)
}

function unknownKey(name: string): string {
  if (/key|token|secret|password/i.test(name)) {
    return `${quote(name)} is not known: this file never holds keys; store the key in a variable and name the variable with api_key_env`
  }
  const meant = nearest(name, fieldNames)
  return `${quote(name)} is not known: ${meant === undefined ? `expected one of ${fieldNames.join(', ')}` : `did you mean ${meant}?`}`
}
