import { readFileSync } from 'node:fs'

let known: string | undefined

/** The version in package.json, which lies two folders up from the source and from dist/ alike. */
export function stoaVersion(): string {
  known ??= (JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string })
    .version
  return known
}
