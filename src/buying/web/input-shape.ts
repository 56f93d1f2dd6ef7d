import { MarketError } from '../../listings/market-error.ts'
import { type WebMethod, type WebRequest, webMethods } from '../../schema/web-purchase.ts'
import type { Demand } from './terms.ts'

/** Names that fields for a task have, in the order in which they are chosen. */
const TASK_FIELDS = ['task', 'prompt', 'input', 'query', 'question', 'text', 'message', 'content', 'q', 'url', 'topic']

type Fields = Readonly<Record<string, unknown>>
/** How a seller declares that it is called. Written by the seller: nothing but shapes is taken from it. */
type Declared = { method: WebMethod; form: 'json' | 'text' | 'query'; fields: Fields; required: readonly string[] }

const record = (value: unknown): Fields | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined

/**
 * The request for a task as the seller declares it: by x402's Bazaar extension, or by `outputSchema` in v1. Undefined: it
 * declares nothing.
 *
 * @throws MarketError TERMS_REFUSED if a task does not fit what it declares
 */
export function declaredRequest(demand: Demand, url: string, task: string): WebRequest | undefined {
  const declared = declarationOf(demand)
  if (declared === undefined) return undefined
  const { method, form } = declared
  if (form === 'text') return { method, url, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: task }
  const field = taskField(declared)
  if (form === 'query') {
    if (field === undefined) return { method, url, headers: {} }
    const at = new URL(url)
    at.searchParams.set(field, task)
    return { method, url: at.href, headers: {} }
  }
  if (field === undefined) return undefined
  return jsonRequest(url, { [field]: task }, method)
}

export function jsonRequest(url: string, body: object, method: WebMethod = 'POST'): WebRequest {
  return { method, url, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
}

function declarationOf({ raw, read }: Demand): Declared | undefined {
  const bazaar = record(record(raw.extensions)?.bazaar)
  const old = record((raw.accepts as unknown[])[0])
  const input = read.x402Version === 2 ? record(record(bazaar?.info)?.input) : record(record(old?.outputSchema)?.input)
  if (input === undefined || input.type !== 'http') return undefined
  const named = typeof input.method === 'string' ? input.method.toUpperCase() : undefined
  const method = webMethods.find((one) => one === named)
  if (method === undefined) return undefined
  const schema = record(record(record(record(record(bazaar?.schema)?.properties)?.input)?.properties)?.[bodyOf(method)])
  const properties = record(schema?.properties)
  const example = record(input[bodyOf(method)]) ?? record(input.bodyFields)
  const required = Array.isArray(schema?.required) ? schema.required.filter((name) => typeof name === 'string') : []
  const form = method === 'GET' || method === 'DELETE' ? 'query' : input.bodyType === 'text' ? 'text' : 'json'
  if (form === 'json' && input.bodyType !== undefined && input.bodyType !== 'json') {
    throw refused(typeof input.bodyType === 'string' ? `as ${input.bodyType.slice(0, 40)}` : 'in a form without a name')
  }
  return { method, form, fields: properties ?? example ?? {}, required }
}

const bodyOf = (method: WebMethod) => (method === 'GET' || method === 'DELETE' ? 'queryParams' : 'body')

/** The field that takes a task. Undefined: none is declared. @throws MarketError TERMS_REFUSED if no one field is meant */
function taskField({ fields, required }: Declared): string | undefined {
  const names = Object.keys(fields)
  const texts = names.filter((name) => typeof fields[name] === 'string' || record(fields[name])?.type === 'string')
  const [only] = required.length === 1 ? required : texts.length === 1 ? texts : []
  const field = TASK_FIELDS.find((name) => texts.includes(name)) ?? only
  if (field === undefined && names.length > 0) throw refused(`with the fields ${listed(names)}`)
  const others = required.filter((name) => name !== field)
  if (others.length > 0) throw refused(`with the fields ${listed([...required])}`)
  return field
}

const listed = (names: readonly string[]) =>
  names
    .slice(0, 10)
    .map((name) => JSON.stringify(name.slice(0, 40)))
    .join(', ')

function refused(how: string): MarketError {
  const fix = 'give the request yourself: a method and a body, or a URL with its query'
  return new MarketError(
    'TERMS_REFUSED',
    `the seller takes its input ${how}, which a task alone does not fill: ${fix}. Nothing was signed`,
  )
}
