import { readFileSync } from 'node:fs'

/** The contents of a file of test/vectors. */
export function readVectors<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`../vectors/${name}.json`, import.meta.url), 'utf8')) as T
}
