import { stripVTControlCharacters } from 'node:util'
import { INPUT_SCHEMA_LENGTH_MAX } from '../../schema/agent-service.ts'

export type JsonObject = Record<string, unknown>

/** Subschemas of one schema. Beyond it, or deeper, anything is allowed: the service checks the rest itself. */
const NODES_MAX = 2_000
const DEPTH_MAX = 16
/** Values of an `enum`, and characters of a description or an example that are kept. */
const ENUM_MAX = 200
const KEPT_LENGTH_MAX = 200
/** Characters of a reference. */
const REFERENCE_LENGTH_MAX = 1_000
/** Subschemas that are read of one document, however often it refers to them, and names that are read as quickly as one. */
const READ_MAX = 3_000_000
const NAMES_PER_READ = 10

const types = new Set(['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'])
const counts = ['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'] as const
const bounds = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'] as const

/** A schema that no agent can be made of, and why. */
export class SchemaError extends Error {
  override name = 'SchemaError'
}

/** What was read of a document so far. A few references to a large part make a document of gigabytes. */
const read = new WeakMap<object, number>()

/** Counts what is read of a document. @throws SchemaError beyond the limit */
export function countRead(document: unknown, count: number): void {
  if (typeof document !== 'object' || document === null) return
  const all = (read.get(document) ?? 0) + count
  read.set(document, all)
  if (all > READ_MAX) throw new SchemaError('the document refers to large parts too often to read it all')
}

/**
 * A stranger's JSON Schema as a finite tree of known keywords, without references, so that a check costs at most values
 * times subschemas. `pattern` and `uniqueItems` are left out, because their check may take for ever, and `format`
 * is kept as a word only. A reference that comes back to itself allows anything from there on.
 *
 * Understands JSON Schema from draft 4 on, and the dialects of OpenAPI 3.0 and 3.1.
 * @param root the document that `$ref` points into. Nothing outside of it is read
 * @throws SchemaError for a reference that leaves the document
 */
export function plainSchema(schema: unknown, root: unknown = schema, { depthMax = DEPTH_MAX } = {}): JsonObject {
  let nodesLeft = NODES_MAX

  function plain(given: unknown, depth: number, trail: readonly unknown[]): JsonObject {
    if (given === false) return { not: {} }
    if (!isObject(given) || depth > depthMax || nodesLeft-- <= 0) return {}
    if (typeof given.$ref === 'string') {
      const target = resolvePointer(root, given.$ref)
      return trail.includes(target) ? {} : plain(target, depth, [...trail, target])
    }
    const width = widthOf(given)
    countRead(root, 1 + width / NAMES_PER_READ)
    if (width > NODES_MAX) return types.has(given.type as string) ? { type: given.type } : {}
    const out = plainValues(given)
    const inner = (value: unknown) => plain(value, depth + 1, trail)
    for (const name of ['allOf', 'anyOf', 'oneOf'] as const) {
      const several = given[name]
      if (Array.isArray(several) && several.length > 0) out[name] = several.slice(0, ENUM_MAX).map(inner)
    }
    if (isSchema(given.not)) out.not = inner(given.not)
    const tuple = given.prefixItems ?? (Array.isArray(given.items) ? given.items : undefined)
    if (Array.isArray(tuple) && tuple.length > 0) out.prefixItems = tuple.slice(0, ENUM_MAX).map(inner)
    const rest = Array.isArray(given.items) ? given.additionalItems : given.items
    if (isSchema(rest)) out.items = inner(rest)
    if (isObject(given.properties)) {
      const shown = Object.entries(given.properties).filter(([name, of]) => name !== '__proto__' && !isReadOnly(of))
      out.properties = Object.fromEntries(shown.map(([name, of]) => [name, inner(of)]))
    }
    if (isSchema(given.additionalProperties)) {
      out.additionalProperties = given.additionalProperties === false ? false : inner(given.additionalProperties)
    }
    return withNull(out, given.nullable === true)
  }

  return plain(schema, 0, [])
}

/** How many names and values one level of a schema has. */
function widthOf({ properties, required, type, examples }: JsonObject): number {
  const lists = [required, type, examples].map((list) => (Array.isArray(list) ? list.length : 0))
  return Math.max(...lists, isObject(properties) ? Object.keys(properties).length : 0)
}

/** The schema of a task as it is stored: as deep as its length allows. @throws SchemaError */
export function storedSchema(schema: unknown, root: unknown = schema): JsonObject {
  for (const depthMax of [DEPTH_MAX, 6, 4, 3, 2]) {
    const plain = plainSchema(schema, root, { depthMax })
    if (JSON.stringify(plain).length <= INPUT_SCHEMA_LENGTH_MAX) return plain
  }
  return { type: 'object' }
}

/** The value that a reference inside a document names. @throws SchemaError */
export function resolvePointer(root: unknown, reference: string): unknown {
  if (!/^#(?:\/|$)/.test(reference)) {
    const shown = stripVTControlCharacters(reference).slice(0, 80)
    throw new SchemaError(`it refers to ${shown}, outside of the document, and nothing else is read: bundle it first`)
  }
  if (reference.length > REFERENCE_LENGTH_MAX) throw new SchemaError('it has a reference that is too long')
  let at = root
  for (const part of reference === '#' ? [] : reference.slice(2).split('/')) {
    const name = decoded(part).replaceAll('~1', '/').replaceAll('~0', '~')
    const isThere = at !== null && typeof at === 'object' && Object.hasOwn(at, name)
    if (!isThere) throw new SchemaError(`it refers to ${reference.slice(0, 80)}, which is not in the document`)
    at = (at as JsonObject)[name]
  }
  return at
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** Keywords whose values are no schemas. */
function plainValues(given: JsonObject): JsonObject {
  const out: JsonObject = {}
  const named = [given.type].flat().filter((type) => types.has(type as string))
  if (named.length > 0) out.type = named.length === 1 ? named[0] : named
  if (Array.isArray(given.enum) && given.enum.length > 0 && given.enum.length <= ENUM_MAX && isSmall(given.enum, 4_000))
    out.enum = given.enum
  if (given.const !== undefined && isSmall(given.const)) out.const = given.const
  for (const name of counts) if (isCount(given[name])) out[name] = given[name]
  for (const name of bounds) if (Number.isFinite(given[name])) out[name] = given[name]
  // Draft 4 and OpenAPI 3.0 write true beside the bound.
  if (given.exclusiveMinimum === true && 'minimum' in out) exchange(out, 'minimum', 'exclusiveMinimum')
  if (given.exclusiveMaximum === true && 'maximum' in out) exchange(out, 'maximum', 'exclusiveMaximum')
  if (typeof given.multipleOf === 'number' && given.multipleOf > 0) out.multipleOf = given.multipleOf
  if (Array.isArray(given.required)) {
    const readOnly = isObject(given.properties) ? given.properties : {}
    const names = given.required.filter((name) => typeof name === 'string' && name !== '__proto__')
    out.required = [...new Set(names)].filter((name) => !(Object.hasOwn(readOnly, name) && isReadOnly(readOnly[name])))
  }
  if (typeof given.description === 'string') out.description = wordsOnly(given.description, KEPT_LENGTH_MAX)
  if (typeof given.format === 'string' && /^[a-z0-9-]{1,32}$/.test(given.format)) out.format = given.format
  const examples = Array.isArray(given.examples) ? given.examples : [given.example, given.default]
  const example = [...examples, given.example, given.default].find((value) => value !== undefined)
  if (example !== undefined && isSmall(example)) out.examples = [example]
  return out
}

function exchange(out: JsonObject, from: string, to: string): void {
  out[to] = out[from]
  delete out[from]
}

/** `nullable` of OpenAPI 3.0. */
function withNull(out: JsonObject, isNullable: boolean): JsonObject {
  if (!isNullable || out.type === undefined) return out
  if (Array.isArray(out.enum) && !out.enum.includes(null)) out.enum = [...out.enum, null]
  return { ...out, type: [out.type, 'null'].flat() }
}

/** Text of others on one line, without controls of terminals and of the direction of text. */
export function wordsOnly(text: string, lengthMax: number): string {
  const line = stripVTControlCharacters(text.slice(0, 4 * lengthMax))
    .replace(/[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\u00ad\u200b\u2060-\u2064\ufeff\s]+/gu, ' ')
    .toWellFormed()
    .trim()
  const characters = [...line]
  return characters.length <= lengthMax ? line : `${characters.slice(0, lengthMax - 1).join('')}…`
}

const isReadOnly = (schema: unknown) => isObject(schema) && schema.readOnly === true
const isSchema = (value: unknown) => typeof value === 'boolean' || isObject(value)
const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0
/** Values that are long as JSON. Documents may refer to one again and again. */
const large = new WeakSet<object>()

function isSmall(value: unknown, lengthMax = KEPT_LENGTH_MAX): boolean {
  const isPart = typeof value === 'object' && value !== null
  if (isPart && large.has(value)) return false
  const isShort = jsonLength(value) <= lengthMax
  if (isPart && !isShort) large.add(value)
  return isShort
}

/** Endless for a value that leads to itself, or that is too deep. */
function jsonLength(value: unknown): number {
  try {
    return JSON.stringify(value).length
  } catch {
    return Number.POSITIVE_INFINITY
  }
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
