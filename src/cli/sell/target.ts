import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { placedWords } from '../commands/program-words.ts'
import { UsageError } from '../exit-code.ts'
import type { Target } from './service.ts'

const NOTHING =
  'what to sell is missing: give a URL, an OpenAPI file, or -- and the program of an MCP server (stoa sell --help)'
/** Parameters of an address that hold a key as a rule. */
const KEY_PARAMETER = /key|token|secret|password|auth|sig/i

/** Reads what the words of the command name. @throws UsageError */
export async function targetOf(given: string | undefined, program: readonly string[]): Promise<Target> {
  if (program.length > 0) {
    if (given !== undefined) throw new UsageError('give either a URL or a file, or -- and a program, not both')
    return { program: await placedWords(program) }
  }
  if (given === undefined || given.trim() === '') throw new UsageError(NOTHING)
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(given)) {
    const file = resolve(given)
    const isFile = await stat(file).then(
      (stats) => stats.isFile(),
      () => false,
    )
    if (isFile) return { file }
    throw new UsageError(
      `${JSON.stringify(given.slice(0, 200))} is no URL and no file: a URL begins with https:// or http://`,
    )
  }
  const url = URL.parse(given)
  if (url === null || !/^https?:$/.test(url.protocol)) throw new UsageError('the address is not an http(s) URL')
  const advice = 'store the key in a variable, and name the variable with --api-key-env'
  if (url.username !== '' || url.password !== '')
    throw new UsageError(`the URL has a user name or a password: ${advice}`)
  const secret = [...url.searchParams.keys()].find((name) => KEY_PARAMETER.test(name))
  if (secret !== undefined)
    throw new UsageError(`the URL seems to have a key in its query (${secret.slice(0, 40)}): ${advice}`)
  url.hash = ''
  return { url }
}
