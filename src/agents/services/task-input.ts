import { excessOf, parseJson, UNLIMITED } from '../../lib/json.ts'
import { AgentError } from '../runtime.ts'
import { isCheckTooLong } from './check-cost.ts'
import { isObject, type JsonObject, plainSchema, wordsOnly } from './plain-schema.ts'

/** How deep and how large the arguments of one task may be (T7). */
const DEPTH_MAX = 32
const VALUES_MAX = 20_000
const REASON_LENGTH_MAX = 300

/** Reads a task as arguments. @throws AgentError that tells the buyer what does not fit */
export type ReadInput = (task: string) => Promise<JsonObject>

/**
 * Checks tasks against a schema before a service is asked. Compiles the schema with the first task. Names that change
 * what an object is, such as `__proto__`, are refused wherever they are.
 */
export function inputReader(schema: JsonObject | undefined): ReadInput {
  let checking: Promise<(args: JsonObject) => string | undefined> | undefined
  return async (task) => {
    const excess = excessOf(task)
    if (excess !== undefined) throw refused(`the task ${excess}`)
    const args = parseJson(task, UNLIMITED)
    if (!isObject(args)) throw refused('the task is not a JSON object of arguments, such as {"name": "value"}')
    const trouble = troubleOf(args)
    if (trouble !== undefined) throw refused(trouble)
    checking ??= compile(schema ?? {})
    const problem = (await checking)(args)
    if (problem !== undefined) throw refused(`the task does not fit: ${problem}`)
    return args
  }
}

function refused(reason: string): AgentError {
  return new AgentError('AGENT_FAILED', reason)
}

async function compile(schema: JsonObject): Promise<(args: JsonObject) => string | undefined> {
  const { Ajv2020 } = await import('ajv/dist/2020.js')
  // The schema has no references, patterns or formats any more. An own property alone counts: `constructor` is inherited.
  const ajv = new Ajv2020({ strict: false, validateFormats: false, ownProperties: true, validateSchema: false })
  const plain = plainSchema(schema)
  const check = ajv.compile(plain)
  return (args) => {
    if (isCheckTooLong(plain, args)) return 'it has more than can be checked at once: send less, or in several tasks'
    if (check(args)) return undefined
    const { instancePath = '', message = 'it is not valid', params = {} } = check.errors?.[0] ?? {}
    const named = 'additionalProperty' in params ? ` (${params.additionalProperty})` : ''
    return wordsOnly(`${instancePath === '' ? 'it' : instancePath} ${message}${named}`, REASON_LENGTH_MAX)
  }
}

function troubleOf(root: JsonObject): string | undefined {
  let values = 0
  const open: [value: unknown, depth: number][] = [[root, 0]]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [value, depth] = next
    if (++values > VALUES_MAX) return `the task has more than ${VALUES_MAX} values`
    if (typeof value !== 'object' || value === null) continue
    if (depth > DEPTH_MAX) return `the task is nested deeper than ${DEPTH_MAX} levels`
    if (
      Object.hasOwn(value, '__proto__') ||
      (Object.hasOwn(value, 'constructor') && isObject((value as JsonObject).constructor))
    )
      return 'the task has an argument with the name __proto__ or constructor'
    for (const inner of Object.values(value)) open.push([inner, depth + 1])
  }
  return undefined
}
