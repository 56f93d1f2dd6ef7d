import fc from 'fast-check'

export type JsonSchema = { [key: string]: unknown }
/** Values for a property or parameter of this name. They replace values from the schema. */
export type Hints = Readonly<Record<string, fc.Arbitrary<unknown>>>
/** How often a part breaks its schema. Values that are almost valid reach deeper code than random values. */
export type ArbitraryOptions = { schemas: Record<string, JsonSchema>; hints?: Hints; wrong?: fc.Arbitrary<unknown> }

const ITEMS_MAX = 3
const DEPTH_MAX = 8

/** Values that a JSON Schema of an OpenAPI document allows, with an occasional invalid part. */
export function fromSchema(schema: JsonSchema, options: ArbitraryOptions, depth = 0): fc.Arbitrary<unknown> {
  const right = rightValues(schema, options, depth)
  if (options.wrong === undefined) return right
  return fc.oneof({ arbitrary: right, weight: 24 }, { arbitrary: options.wrong, weight: 1 })
}

function rightValues(schema: JsonSchema, options: ArbitraryOptions, depth: number): fc.Arbitrary<unknown> {
  if (depth > DEPTH_MAX) return fc.constant(null)
  if (typeof schema.$ref === 'string') {
    const name = schema.$ref.split('/').at(-1)!
    return rightValues(options.schemas[name] ?? {}, options, depth + 1)
  }
  if ('const' in schema) return fc.constant(schema.const)
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum)
  if (schema.type === 'object' && isRecord(schema.properties)) return objects(schema, options, depth)
  const choices = [schema.anyOf, schema.oneOf].find(Array.isArray) as JsonSchema[] | undefined
  if (choices !== undefined) return fc.oneof(...choices.map((choice) => rightValues(choice, options, depth + 1)))
  return plainValues(schema, options, depth)
}

function plainValues(schema: JsonSchema, options: ArbitraryOptions, depth: number): fc.Arbitrary<unknown> {
  const bound = (name: string, otherwise: number) => (typeof schema[name] === 'number' ? schema[name] : otherwise)
  switch (schema.type) {
    case 'array':
      return fc.array(fromSchema((schema.items ?? {}) as JsonSchema, options, depth + 1), {
        minLength: bound('minItems', 0),
        maxLength: Math.max(bound('minItems', 0), Math.min(ITEMS_MAX, bound('maxItems', ITEMS_MAX))),
      })
    case 'string':
      if (typeof schema.pattern === 'string') return fc.stringMatching(new RegExp(schema.pattern))
      return fc.string({ minLength: bound('minLength', 0), maxLength: Math.min(40, bound('maxLength', 40)) })
    case 'integer':
      return fc.integer({ min: bound('minimum', -1000), max: bound('maximum', 1000) })
    case 'number':
      return fc.double({ min: bound('minimum', -1000), max: bound('maximum', 1000), noNaN: true })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    default:
      return fc.jsonValue({ maxDepth: 2 })
  }
}

/** `anyOf` beside `properties` lists the required properties. */
function objects(schema: JsonSchema, options: ArbitraryOptions, depth: number): fc.Arbitrary<unknown> {
  const properties = Object.entries(schema.properties as Record<string, JsonSchema>)
  const model = Object.fromEntries(
    properties.map(([name, property]) => [name, valueFor(name, property, options, depth + 1)]),
  )
  const always = (schema.required ?? []) as string[]
  const alternatives = ((schema.anyOf ?? [{}]) as { required?: string[] }[]).map(({ required = [] }) => required)
  return fc.oneof(
    ...alternatives.map((required) => {
      const others = alternatives.flat().filter((name) => !required.includes(name))
      const kept = Object.fromEntries(Object.entries(model).filter(([name]) => !others.includes(name)))
      return fc.record(kept, { requiredKeys: [...always, ...required] })
    }),
  )
}

/** A value for a property or a parameter of this name. */
export function valueFor(
  name: string,
  schema: JsonSchema,
  options: ArbitraryOptions,
  depth = 0,
): fc.Arbitrary<unknown> {
  const hint = options.hints?.[name]
  if (hint === undefined) return fromSchema(schema, options, depth)
  if (options.wrong === undefined) return hint
  return fc.oneof({ arbitrary: hint, weight: 24 }, { arbitrary: options.wrong, weight: 1 })
}

function isRecord(value: unknown): value is Record<string, JsonSchema> {
  return typeof value === 'object' && value !== null
}
