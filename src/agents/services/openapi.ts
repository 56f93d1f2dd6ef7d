import { isTaskHeader, type Operation, type OperationParameter, operationMethods } from '../../schema/agent-service.ts'
import {
  countRead,
  isObject,
  type JsonObject,
  resolvePointer,
  SchemaError,
  storedSchema,
  wordsOnly,
} from './plain-schema.ts'

/** Operations of one document that are read. */
const OPERATIONS_MAX = 1_000
const TEXT_LENGTH_MAX = 2_000
const PARAMETERS_MAX = 64
const TAGS_READ_MAX = 64

/** One operation of a document, as it could be sold. */
export type ApiOperation = {
  /** How flags name it: its id, or method and path. */
  key: string
  path: string
  title: string
  description: string
  tags: string[]
  /** Where the document sends it. Undefined: the document does not say, or not as a whole URL. */
  server: string | undefined
  needsKey: boolean
  /** Without its server, or why it cannot be sold. */
  found: { operation: Operation & { input_schema: JsonObject } } | { problem: string }
}

/** @returns its version, or undefined for a document that is not of OpenAPI 3.0 to 3.2 */
export function openApiVersion(document: unknown): string | undefined {
  const version = isObject(document) ? document.openapi : undefined
  return typeof version === 'string' && /^3\.[0-2](?:\.\d{1,3})?$/.test(version) ? version : undefined
}

/**
 * The operations of an OpenAPI document. Reads nothing but the document: a reference to a file or to another host makes
 * its operation one that cannot be sold.
 * @param from the URL of the document, against which its servers are read. Undefined for a file
 */
export function apiOperations(document: JsonObject, from: string | undefined): ApiOperation[] {
  const operations: ApiOperation[] = []
  for (const [path, given] of Object.entries(isObject(document.paths) ? document.paths : {})) {
    const item = pathItem(document, given)
    for (const method of operationMethods) {
      const operation = item?.[method.toLowerCase()]
      if (!isObject(operation) || operations.length >= OPERATIONS_MAX) continue
      operations.push(read({ document, item: item!, path, method, operation, from }))
    }
  }
  return named(operations)
}

/** Without an id, or with one that is given twice, an operation is named by method and path. */
function named(operations: ApiOperation[]): ApiOperation[] {
  const counts = new Map<string, number>()
  for (const { key } of operations) counts.set(key, (counts.get(key) ?? 0) + 1)
  return operations.map((one) => (counts.get(one.key) === 1 ? one : { ...one, key: one.path }))
}

type Found = {
  document: JsonObject
  item: JsonObject
  path: string
  method: Operation['method']
  operation: JsonObject
  from: string | undefined
}

function read(found: Found): ApiOperation {
  const { document, item, path, method, operation, from } = found
  const place = wordsOnly(`${method} ${path}`, 200)
  const id = typeof operation.operationId === 'string' ? wordsOnly(operation.operationId, 128) : ''
  const text = (value: unknown, max = TEXT_LENGTH_MAX) => (typeof value === 'string' ? wordsOnly(value, max) : '')
  const common = {
    key: id === '' ? place : id,
    path: place,
    title: text(operation.summary, 80) || id || place,
    description: sentences(text(operation.summary), text(operation.description)) || place,
    tags: (Array.isArray(operation.tags) ? operation.tags : [])
      .slice(0, TAGS_READ_MAX)
      .flatMap((tag) => text(tag, 32) || [])
      .slice(0, 4),
    server: serverOf([operation.servers, item.servers, document.servers], from),
    needsKey: false,
  }
  try {
    const key = keyOf(document, operation.security ?? document.security)
    return { ...common, needsKey: key !== undefined, found: { operation: operationOf(found, key) } }
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error
    return { ...common, found: { problem: error.message } }
  }
}

function sentences(one: string, other: string): string {
  if (one === '' || other === '') return one || other
  return `${/[.!?…。]$/u.test(one) ? one : `${one}.`} ${other}`
}

function operationOf({ document, item, path, method, operation }: Found, key: Key | undefined) {
  if (/[?#]/.test(path) || !path.startsWith('/')) throw new SchemaError('its path is not a plain path')
  const all = [item.parameters, operation.parameters].flatMap((list) => (Array.isArray(list) ? list : []))
  countRead(document, all.length)
  const given = all.map((one) => resolved(document, one)).filter(isObject)
  // The operation's own parameter replaces the path's.
  const merged = [...new Map(given.map((one) => [`${one.in} ${one.name}`, one])).values()]
  if (merged.length > PARAMETERS_MAX) throw new SchemaError(`it has more than ${PARAMETERS_MAX} parameters`)
  const properties: JsonObject = {}
  const required: string[] = []
  const parameters: OperationParameter[] = []
  for (const one of merged) {
    const parameter = parameterOf(document, one, new Set([...Object.keys(properties), 'body']))
    if (parameter === undefined || (key?.use?.in === one.in && key?.use?.name === one.name)) continue
    const as = parameter.as ?? parameter.name
    parameters.push(parameter)
    properties[as] = described(one, storedSchema(schemaOf(one), document))
    if (one.required === true || one.in === 'path') required.push(as)
  }
  const body = method === 'GET' ? undefined : bodyOf(document, operation.requestBody)
  if (body !== undefined) {
    properties.body = body.schema
    if (body.isRequired) required.push('body')
  }
  const schema = { type: 'object', properties, ...(required.length > 0 && { required }), additionalProperties: false }
  return {
    method,
    url: path,
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && { body: body.kind }),
    ...(key?.use !== undefined && { key: key.use }),
    input_schema: storedSchema(schema),
  }
}

/** @returns undefined for a parameter that need not be sent and cannot be. @throws SchemaError if it must be sent */
function parameterOf(document: JsonObject, given: JsonObject, taken: Set<string>): OperationParameter | undefined {
  const { name, in: place } = given
  const cannot = (reason: string) => {
    if (given.required !== true && place !== 'path') return undefined
    throw new SchemaError(`its parameter ${wordsOnly(String(name), 60)} ${reason}`)
  }
  if (typeof name !== 'string' || name === '' || name.length > 128 || name === '__proto__') return cannot('has no name')
  if (place !== 'path' && place !== 'query' && place !== 'header')
    return cannot(`is in ${wordsOnly(String(place), 20)}`)
  // OpenAPI itself ignores these three.
  if (place === 'header' && /^(?:accept|content-type|authorization)$/i.test(name)) return undefined
  if (place === 'header' && !isTaskHeader(name)) return cannot('is a header that no task may fill')
  const style = styleOf(document, given, place)
  if (style === null) return cannot('is written in a style that is not supported')
  const as = taken.has(name) ? `${place}_${name}` : undefined
  return { name, in: place, ...(as !== undefined && { as }), ...(style !== undefined && { style }) }
}

/** @returns null if the style is not supported, undefined if it is the usual one */
function styleOf(document: JsonObject, given: JsonObject, place: 'path' | 'query' | 'header') {
  if (isObject(given.content)) return place === 'path' ? null : 'json'
  const type = storedSchema(schemaOf(given), document).type
  const usual = place === 'query' ? 'form' : 'simple'
  if (given.style === 'deepObject' && place === 'query') return 'deep'
  if (given.style !== undefined && given.style !== usual) return null
  if (type === 'object') return null
  return place === 'query' && given.explode === false ? 'comma' : undefined
}

function schemaOf(given: JsonObject): unknown {
  if (!isObject(given.content)) return given.schema ?? {}
  const [media] = Object.values(given.content)
  return (isObject(media) ? media.schema : undefined) ?? {}
}

/** An example of the parameter itself is as good as one of its schema. */
function described(given: JsonObject, schema: JsonObject): JsonObject {
  const [named] = isObject(given.examples) ? Object.values(given.examples) : []
  const example = given.example ?? (isObject(named) ? named.value : undefined)
  return storedSchema({
    ...schema,
    ...(typeof given.description === 'string' && { description: given.description }),
    ...(example !== undefined && { examples: [example] }),
  })
}

function bodyOf(document: JsonObject, given: unknown) {
  const body = resolved(document, given)
  if (!isObject(body) || !isObject(body.content)) return undefined
  const types = Object.entries(body.content)
  countRead(document, types.length)
  const kinds = [
    ['json', /^application\/(?:json|[\w.+-]*\+json|\*)|^\*\/\*/i],
    ['form', /^application\/x-www-form-urlencoded/i],
    ['text', /^text\/(?:plain|\*)/i],
  ] as const
  for (const [kind, pattern] of kinds) {
    const media = types.find(([type]) => pattern.test(type))?.[1]
    if (!isObject(media)) continue
    const schema = described(media, storedSchema(media.schema ?? {}, document))
    return { kind, schema, isRequired: body.required === true }
  }
  if (body.required !== true) return undefined
  throw new SchemaError(
    `its body is ${wordsOnly(types.map(([type]) => type).join(', '), 80)}, and json, form and text can be sent`,
  )
}

type Key = { use: NonNullable<Operation['key']> | undefined }

/** Where the key goes. Undefined: it needs none. @throws SchemaError if one key in one place is not enough */
function keyOf(document: JsonObject, security: unknown): Key | undefined {
  if (!Array.isArray(security) || security.length === 0) return undefined
  countRead(document, security.length)
  const ways = security.filter(isObject).map((one) => Object.keys(one))
  if (ways.some((names) => names.length === 0)) return undefined
  const components = isObject(document.components) ? document.components : {}
  const schemes = isObject(components.securitySchemes) ? components.securitySchemes : {}
  for (const [name, ...others] of ways) {
    if (others.length > 0 || !Object.hasOwn(schemes, name!)) continue
    const key = keyOfScheme(resolved(document, schemes[name!]))
    if (key !== undefined) return key
  }
  throw new SchemaError('it needs a cookie, a certificate or several keys at once')
}

function keyOfScheme(scheme: unknown): Key | undefined {
  if (!isObject(scheme)) return undefined
  const { type, in: place, name } = scheme
  if (type === 'oauth2' || type === 'openIdConnect') return { use: undefined }
  if (type === 'http' && /^bearer$/i.test(String(scheme.scheme))) return { use: undefined }
  if (type === 'http' && /^basic$/i.test(String(scheme.scheme))) return { use: { in: 'basic' } }
  const isPlaced = type === 'apiKey' && (place === 'header' || place === 'query')
  return isPlaced && typeof name === 'string' ? { use: { in: place, name } } : undefined
}

/** The first server that is named, with its variables at their defaults. */
function serverOf(lists: readonly unknown[], from: string | undefined): string | undefined {
  const list = lists.find((one) => Array.isArray(one) && one.length > 0) as unknown[] | undefined
  const [first] = list ?? [{ url: '/' }]
  if (!isObject(first) || typeof first.url !== 'string' || first.url.length > 2_048) return undefined
  const variables = isObject(first.variables) ? first.variables : {}
  const text = first.url.replace(/\{([^{}]*)\}/g, (whole, name: string) => {
    const variable = Object.hasOwn(variables, name) ? variables[name] : undefined
    return isObject(variable) && typeof variable.default === 'string' ? variable.default : whole
  })
  return URL.parse(text, from)?.href.replace(/\/+$/, '')
}

function pathItem(document: JsonObject, given: unknown): JsonObject | undefined {
  try {
    const item = resolved(document, given)
    return isObject(item) ? item : undefined
  } catch (error) {
    if (error instanceof SchemaError) return undefined
    throw error
  }
}

/** References to references, up to a few. */
function resolved(document: JsonObject, given: unknown): unknown {
  let at = given
  for (let hops = 0; isObject(at) && typeof at.$ref === 'string'; hops++) {
    if (hops > 8) throw new SchemaError('its references lead in a circle')
    at = resolvePointer(document, at.$ref)
  }
  return at
}
