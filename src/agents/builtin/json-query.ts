import { parseJson, UNLIMITED } from '../../lib/json.ts'
import { AgentError } from '../runtime.ts'

const STEPS_MAX = 64

type Step = { kind: 'key'; key: string } | { kind: 'index'; index: number } | { kind: 'each' }

/**
 * Extracts values from JSON, which follows a first line with a path.
 *
 * path = "." | { ".key" | '["key"]' | "[3]" | "[-1]" | "[]" }
 *
 * `[]` iterates over an array or the values of an object. A value is a line of JSON; a missing one is `null`, as in jq.
 * @throws AgentError 'AGENT_FAILED' that says what is wrong with the path or the JSON
 */
export function jsonQuery(input: string): string {
  const lineEnd = input.indexOf('\n')
  if (lineEnd === -1)
    throw wrong('the first line is a path such as .items[].name, and the JSON follows on the next line')
  const steps = parsePath(input.slice(0, lineEnd).trim())
  const document = jsonOf(input.slice(lineEnd + 1))
  const found = steps.reduce<unknown[]>((values, step) => values.flatMap((value) => take(value, step)), [document])
  try {
    return found.map((value) => JSON.stringify(value)).join('\n')
  } catch {
    // The only possible failure: older engines parse deeper nesting than they can write.
    throw wrong('the JSON is nested too deeply')
  }
}

function parsePath(path: string): Step[] {
  if (path === '.') return []
  const steps: Step[] = []
  const step = /\.([\p{L}_$][\p{L}\p{N}_$-]*)|\.?\[(?:("(?:[^"\\]|\\.)*")|(-?\d{1,9}))?\]/uy
  while (step.lastIndex < path.length) {
    const at = step.lastIndex
    const match = step.exec(path)
    if (match === null) throw wrong(`the path is not understood at ${JSON.stringify(path.slice(at, at + 20))}`)
    if (steps.length >= STEPS_MAX) throw wrong(`the path has more than ${STEPS_MAX} steps`)
    const [, key, quoted, index] = match
    if (key !== undefined) steps.push({ kind: 'key', key })
    else if (quoted !== undefined) steps.push({ kind: 'key', key: String(jsonOf(quoted)) })
    else if (index !== undefined) steps.push({ kind: 'index', index: Number(index) })
    else steps.push({ kind: 'each' })
  }
  if (steps.length === 0) throw wrong('the path is empty: write . for the whole JSON')
  return steps
}

function jsonOf(text: string): unknown {
  const value = parseJson(text, UNLIMITED)
  if (value === undefined) throw wrong('what follows the path is not valid JSON')
  return value
}

function take(value: unknown, step: Step): unknown[] {
  if (value === null || typeof value !== 'object') {
    if (step.kind === 'each') throw wrong('[] meets a value that is neither an array nor an object')
    return [null]
  }
  if (step.kind === 'each') return Object.values(value)
  if (step.kind === 'index') return [Array.isArray(value) ? (value.at(step.index) ?? null) : null]
  return [Object.hasOwn(value, step.key) ? (value as Record<string, unknown>)[step.key] : null]
}

function wrong(message: string): AgentError {
  return new AgentError('AGENT_FAILED', message)
}
