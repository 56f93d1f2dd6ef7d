import { oneLine } from '../lib/text/one-line.ts'

/** The own field of a value that a stranger wrote. */
export function fieldOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return (value as Record<string, unknown>)[name]
}

/**
 * A text of a catalog on one line. Invisible characters are dropped too: they hide instructions from people, not from
 * language models.
 */
export function cleanText(text: string, lengthMax: number): string {
  return oneLine(text, lengthMax)
    .replace(/[\p{Cf}\p{Co}]/gu, '')
    .trim()
}

/** A count of a catalog, if it is one. */
export function countOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined
}
