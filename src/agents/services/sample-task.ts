import { isObject, type JsonObject, wordsOnly } from './plain-schema.ts'

const SAMPLE_LENGTH_MAX = 2_000
const ARGUMENTS_SHOWN_MAX = 12

/** A task made of the examples of a schema, as JSON. Undefined: the schema says too little, and nothing is made up. */
export function sampleTask(schema: JsonObject): string | undefined {
  const sample = sampleOf(schema, 0)
  if (!isObject(sample)) return undefined
  const text = JSON.stringify(sample)
  return text.length <= SAMPLE_LENGTH_MAX ? text : undefined
}

function sampleOf(schema: JsonObject, depth: number): unknown {
  if (Array.isArray(schema.examples) && schema.examples.length > 0) return schema.examples[0]
  if (schema.const !== undefined) return schema.const
  if (Array.isArray(schema.enum)) return schema.enum[0]
  const type = [schema.type].flat()[0]
  if (depth > 8 || (type !== 'object' && schema.properties === undefined)) return undefined
  const properties = isObject(schema.properties) ? schema.properties : {}
  const sample: JsonObject = {}
  for (const name of Array.isArray(schema.required) ? schema.required : []) {
    const value = sampleOf(Object.hasOwn(properties, name) ? (properties[name] as JsonObject) : {}, depth + 1)
    if (value === undefined) return undefined
    sample[name] = value
  }
  return sample
}

/** Says buyers what a task is, such as `"city" (string), "days" (integer, may be left out)`. */
export function taskText(schema: JsonObject): string {
  const properties = Object.entries(isObject(schema.properties) ? schema.properties : {})
  if (properties.length === 0) return 'The task is a JSON object of arguments, such as {}.'
  const required = new Set(Array.isArray(schema.required) ? schema.required : [])
  const texts = properties.slice(0, ARGUMENTS_SHOWN_MAX).map(([name, of]) => {
    const { type, enum: values, description } = of as JsonObject
    const shown = Array.isArray(values)
      ? values.slice(0, 8).map(String).join(' | ')
      : [type].flat().filter(Boolean).join(' or ')
    const parts = [shown, required.has(name) ? '' : 'optional'].filter(Boolean).join(', ')
    const said = typeof description === 'string' ? `: ${description.slice(0, 100)}` : ''
    return wordsOnly(`"${name}"${parts === '' ? '' : ` (${parts})`}${said}`, 200)
  })
  const more = properties.length > texts.length ? ` and ${properties.length - texts.length} more` : ''
  return `The task is a JSON object with ${texts.join('; ')}${more}.`
}
