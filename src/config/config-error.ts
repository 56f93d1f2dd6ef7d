import type * as z from 'zod'
import { CodedError } from '../lib/errors.ts'
import { editDistance } from '../lib/text/edit-distance.ts'

/** Settings that cannot be used. The message has one line for each: its place, its value, and what is expected. */
export class ConfigError extends CodedError<'CONFIG_INVALID'> {
  override name = 'ConfigError'

  constructor(lines: string | readonly string[], options?: ErrorOptions) {
    super('CONFIG_INVALID', typeof lines === 'string' ? lines : lines.join('\n'), options)
  }
}

/**
 * One line about a value that a schema of `values.ts` refused.
 *
 * @param source where the value was given: a flag, a variable, a line of a file
 * @param given the text, or undefined if it must not be shown
 */
export function describeRefusal(source: string, given: unknown, issue: z.core.$ZodIssue): string {
  const part = issue.code === 'custom' ? issue.params?.part : undefined
  const [place] = issue.path
  const one = Array.isArray(given) && typeof place === 'number' ? given[place] : given
  const shown = given === undefined ? 'the value' : quote(typeof part === 'string' ? part : one)
  return `${source}: ${shown} is not valid: expected ${issue.message}`
}

/** Makes a value fit for an error: short, and without characters that a terminal would act on. */
export function quote(given: unknown): string {
  const text = typeof given === 'string' ? given : (JSON.stringify(given) ?? String(given))
  const short = text.length > 80 ? `${text.slice(0, 79)}…` : text
  return JSON.stringify(short).replace(
    /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** The name that a mistyped name probably meant. */
export function nearest(name: string, names: readonly string[]): string | undefined {
  const max = Math.max(1, Math.floor(name.length / 3))
  const near = names.flatMap((meant) => {
    const distance = editDistance(name.toLowerCase(), meant.toLowerCase(), max)
    return distance === undefined ? [] : [{ meant, distance }]
  })
  return near.sort((a, b) => a.distance - b.distance)[0]?.meant
}
