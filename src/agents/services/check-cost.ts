import { isObject, type JsonObject } from './plain-schema.ts'

/** Steps that one check may take: one subschema for one value. They take less than 50 ms. */
const STEPS_MAX = 50_000
/** What a check reads in the time of one step: values of an `enum` and names of `required`, characters of a text, fields. */
const NAMES_PER_STEP = 64
const CHARACTERS_PER_STEP = 256
const FIELDS_PER_STEP = 8

/**
 * Says before a check whether it would hold the event loop (T32). A schema with a thousand ways for each of 20,000 values is checked
 * in tens of seconds, and so is a long text that a hundred ways measure. This count looks at the branches only, and ends at the limit.
 *
 * @param schema a finite tree, as `plainSchema` makes it
 */
export function isCheckTooLong(schema: JsonObject, value: unknown): boolean {
  let steps = 0
  const open: [schema: unknown, value: unknown][] = [[schema, value]]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [rules, at] = next
    if (!isObject(rules)) continue
    steps += costOf(rules, at)
    if (steps + open.length > STEPS_MAX) return true
    for (const name of ['allOf', 'anyOf', 'oneOf']) for (const one of listOf(rules[name])) open.push([one, at])
    if (rules.not !== undefined) open.push([rules.not, at])
    for (const [inner, part] of partsOf(rules, at)) if (inner !== undefined) open.push([inner, part])
  }
  return false
}

/** The items or fields of a value, each with the subschema that holds for it. */
function* partsOf(rules: JsonObject, at: unknown): Iterable<[schema: unknown, value: unknown]> {
  if (Array.isArray(at)) {
    const tuple = listOf(rules.prefixItems)
    if (tuple.length > 0 || rules.items !== undefined)
      for (const [place, item] of at.entries()) yield [tuple[place] ?? rules.items, item]
  } else if (isObject(at)) {
    const named = isObject(rules.properties) ? rules.properties : {}
    for (const [name, inner] of Object.entries(at))
      yield [Object.hasOwn(named, name) ? named[name] : rules.additionalProperties, inner]
  }
}

function costOf(rules: JsonObject, at: unknown): number {
  const names = listOf(rules.enum).length + listOf(rules.required).length
  return 1 + names / NAMES_PER_STEP + readingCost(rules, at)
}

/** The length of a text, and the number of fields of an object, are known only when all of it has been read. */
function readingCost({ minLength, maxLength }: JsonObject, at: unknown): number {
  if (typeof at === 'string') return (minLength ?? maxLength) === undefined ? 0 : at.length / CHARACTERS_PER_STEP
  return isObject(at) ? Object.keys(at).length / FIELDS_PER_STEP : 0
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
