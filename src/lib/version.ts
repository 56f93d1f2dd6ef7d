import { readFileSync } from 'node:fs'

let known: string | undefined

/** The version in package.json. The file is two folders up from both src/ and dist/. */
export function stoaVersion(): string {
  known ??= (JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string })
    .version
  return known
}
