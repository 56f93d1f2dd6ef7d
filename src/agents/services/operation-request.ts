import { isTaskHeader, type Operation, type OperationParameter } from '../../schema/agent-service.ts'
import { AgentError } from '../runtime.ts'
import { isObject, type JsonObject } from './plain-schema.ts'

const URL_LENGTH_MAX = 8_192
const HEADER_LENGTH_MAX = 4_096

type OperationRequest = {
  url: string
  method: Operation['method']
  headers: Record<string, string>
  body: string | undefined
}

/**
 * The request of one task. Arguments fill the values of the operation's parameters and nothing else: no argument adds a
 * segment to the path, a header, a host or a query of its own (T12).
 * @throws AgentError that tells the buyer which argument does not fit
 */
export function requestOf(operation: Operation, args: JsonObject, key: string | undefined): OperationRequest {
  const { method, parameters = [], body } = operation
  const known = new Set([...parameters.map(keyOf), ...(body === undefined ? [] : ['body'])])
  const unknown = Object.keys(args).find((name) => !known.has(name))
  if (unknown !== undefined) throw refused(unknown, `is not an argument; there are ${[...known].join(', ') || 'none'}`)
  const headers: Record<string, string> = { accept: 'application/json, text/*;q=0.9, */*;q=0.5' }
  const query = new URLSearchParams()
  for (const parameter of parameters) {
    const name = keyOf(parameter)
    const value = Object.hasOwn(args, name) ? args[name] : undefined
    if (value === undefined || value === null || parameter.in === 'path') continue
    if (parameter.in === 'header') headers[parameter.name.toLowerCase()] = headerText(parameter, value)
    else for (const [as, text] of queryPairs(parameter, value)) query.append(as, text)
  }
  const sent = bodyOf(body, args.body)
  if (sent !== undefined) headers['content-type'] = sent.type
  // Last, so that no argument of the task can replace the key.
  const used = operation.key ?? { in: 'header' as const, name: 'authorization' }
  if (key !== undefined) {
    if (used.in === 'query') query.set(used.name!, key)
    else if (used.in === 'basic') headers.authorization = `Basic ${Buffer.from(key).toString('base64')}`
    else headers[used.name!.toLowerCase()] = operation.key === undefined ? `Bearer ${key}` : key
  }
  return { url: urlOf(operation, args, query), method, headers, body: sent?.text }
}

function urlOf({ url, parameters = [] }: Operation, args: JsonObject, query: URLSearchParams): string {
  const filled = url.replace(/\{([^{}]*)\}/g, (_, name: string) => {
    const parameter = parameters.find((one) => one.in === 'path' && one.name === name)!
    const key = keyOf(parameter)
    return pathText(key, Object.hasOwn(args, key) ? args[key] : undefined)
  })
  const base = new URL(url.replace(/\{[^{}]*\}/g, 'x'))
  const target = new URL(filled)
  // The checks of each value make this so. It holds also if one of them has a hole.
  const segments = ({ pathname }: URL) => pathname.split('/').length
  if (target.origin !== base.origin || segments(target) !== segments(base) || target.search + target.hash !== '') {
    throw new AgentError('AGENT_FAILED', 'the arguments of the task lead to another address')
  }
  target.search = query.toString()
  if (target.href.length > URL_LENGTH_MAX) {
    throw new AgentError(
      'AGENT_FAILED',
      `the arguments of the task make an address of more than ${URL_LENGTH_MAX} characters`,
    )
  }
  return target.href
}

/** One segment of the path. Many servers decode `%2f` before they route, so a slash is refused in every spelling. */
function pathText(key: string, value: unknown): string {
  const text = Array.isArray(value) ? value.map((one) => scalarText(key, one)).join(',') : scalarText(key, value)
  if (text === '' || /^\.+$/.test(text) || /[/\\%\p{Cc}]/u.test(text)) {
    throw refused(key, 'is part of an address: it may not be empty, only dots, or contain / \\ % or control characters')
  }
  return encodeURIComponent(text.toWellFormed())
}

function headerText(parameter: OperationParameter, value: unknown): string {
  const key = keyOf(parameter)
  if (!isTaskHeader(parameter.name)) throw refused(key, 'is a header that no task may fill')
  const text = parameter.style === 'json' ? JSON.stringify(value) : listText(key, value)
  if (text.length > HEADER_LENGTH_MAX || !/^[\x20-\x7e]*$/.test(text)) {
    throw refused(key, `is a header: at most ${HEADER_LENGTH_MAX} visible characters of ASCII on one line`)
  }
  return text
}

function queryPairs({ name, as, style }: OperationParameter, value: unknown): [string, string][] {
  const key = as ?? name
  if (style === 'json') return [[name, JSON.stringify(value)]]
  if (style === 'deep') {
    if (!isObject(value)) throw refused(key, 'is not an object')
    return Object.entries(value).map(([field, one]) => [`${name}[${fieldName(key, field)}]`, scalarText(key, one)])
  }
  if (Array.isArray(value) && style !== 'comma') return value.map((one) => [name, scalarText(key, one)])
  return [[name, listText(key, value)]]
}

function fieldName(key: string, field: string): string {
  if (/^[\w.-]{1,128}$/.test(field)) return field
  throw refused(key, 'has a field whose name is not letters, digits, _ . and -')
}

function bodyOf(kind: Operation['body'], value: unknown): { type: string; text: string } | undefined {
  if (kind === undefined || value === undefined) return undefined
  if (kind === 'json') return { type: 'application/json', text: JSON.stringify(value) }
  if (kind === 'text') {
    if (typeof value !== 'string') throw refused('body', 'is not a text')
    return { type: 'text/plain; charset=utf-8', text: value }
  }
  if (!isObject(value)) throw refused('body', 'is not an object')
  const pairs = Object.entries(value).flatMap(([field, one]) =>
    [one].flat().map((each): [string, string] => [field, scalarText('body', each)]),
  )
  return { type: 'application/x-www-form-urlencoded', text: new URLSearchParams(pairs).toString() }
}

function listText(key: string, value: unknown): string {
  return Array.isArray(value) ? value.map((one) => scalarText(key, one)).join(',') : scalarText(key, value)
}

function scalarText(key: string, value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  throw refused(key, value === undefined ? 'is missing' : 'is not a text, a number or true or false')
}

function keyOf({ name, as }: OperationParameter): string {
  return as ?? name
}

function refused(key: string, reason: string): AgentError {
  return new AgentError('AGENT_FAILED', `the argument ${JSON.stringify(key.slice(0, 80))} ${reason}`)
}
