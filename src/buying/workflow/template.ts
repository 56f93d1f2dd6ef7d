import { MarketError } from '../../listings/market-error.ts'

/** A text with placeholders for the workflow's input or the output of a step. */
type Template = readonly (string | { input: true } | { step: string })[]

/** The values for the placeholders. */
type TemplateValues = { input: string; outputOf(step: string): string }

/** The text is not a valid template. The message says where the fault is and what to write instead. */
export class TemplateError extends Error {
  override name = 'TemplateError'
}

const HOLE = /\\\{\{|\{\{([^{}]*)\}\}|\{\{/g
const STEP = /^steps\.([A-Za-z0-9_-]{1,64})\.output$/

/**
 * Reads a template.
 *
 * ```bnf
 * template ::= (text | "\{{" | "{{input}}" | "{{steps." id ".output}}")*
 * ```
 * @throws TemplateError
 */
export function parseTemplate(text: string): Template {
  const parts: Template[number][] = []
  let from = 0
  const addText = (more: string) => {
    if (more === '') return
    const last = parts.at(-1)
    if (typeof last === 'string') parts[parts.length - 1] = last + more
    else parts.push(more)
  }
  for (const match of text.matchAll(HOLE)) {
    addText(text.slice(from, match.index))
    from = match.index + match[0].length
    if (match[0] === '\\{{') addText('{{')
    else parts.push(holeOf(match[1]))
  }
  addText(text.slice(from))
  return parts
}

function holeOf(inside: string | undefined): Template[number] {
  if (inside === undefined)
    throw new TemplateError(String.raw`holds a {{ without its }}: write \{{ for the text itself`)
  const name = inside.trim()
  if (name === 'input') return { input: true }
  const step = STEP.exec(name)?.[1]
  if (step !== undefined) return { step }
  const shown = JSON.stringify(name.slice(0, 60))
  throw new TemplateError(
    String.raw`holds {{…}} around ${shown}: write {{input}}, {{steps.<id>.output}}, or \{{ for the text`,
  )
}

/** Returns the steps whose output a template needs, without duplicates. */
export function stepsIn(template: Template): string[] {
  const steps = template.flatMap((part) => (typeof part === 'object' && 'step' in part ? [part.step] : []))
  return [...new Set(steps)]
}

/**
 * Fills a template in one pass. Braces in the inserted values are plain text.
 *
 * @throws MarketError INPUT_TOO_LARGE before a text of that size is built
 */
export function fillTemplate(template: Template, values: TemplateValues, bytesMax: number): string {
  const known = new Map<string, { text: string; bytes: number }>()
  const valueFor = (part: Template[number]) => {
    if (typeof part === 'string') return { text: part, bytes: Buffer.byteLength(part) }
    // Measure each value once, even if the template uses it many times.
    const key = 'step' in part ? `step ${part.step}` : 'input'
    const cached = known.get(key)
    if (cached !== undefined) return cached
    const text = 'step' in part ? values.outputOf(part.step) : values.input
    const value = { text, bytes: Buffer.byteLength(text) }
    known.set(key, value)
    return value
  }
  let bytes = 0
  const texts: string[] = []
  for (const part of template) {
    const value = valueFor(part)
    bytes += value.bytes
    if (bytes > bytesMax) {
      throw new MarketError(
        'INPUT_TOO_LARGE',
        `with the outputs of other steps, the task is longer than ${bytesMax} bytes`,
      )
    }
    texts.push(value.text)
  }
  return texts.join('')
}
