import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { delimiter, join, resolve } from 'node:path'
import { commandEnvironment } from './command-environment.ts'

/** Programs whose first argument is a file, unless the argument is an option. */
const interpreters = /^(?:python[\d.]*|node|ruby|perl|php|sh|bash|zsh)$/
const USUAL_PATH = '/usr/local/bin:/usr/bin:/bin'

/** Checks that a program can be started as written, in PATH or as a path. @returns what is wrong and what to do */
export async function checkProgram(
  command: readonly string[],
  readEnv: (name: string) => string | undefined,
): Promise<string | undefined> {
  const [program = '', first] = command
  const { PATH: path = USUAL_PATH } = commandEnvironment(readEnv)
  const isPath = program.includes('/')
  const places = isPath ? [resolve(program)] : path.split(delimiter).map((directory) => join(directory, program))
  if (!(await some(places, isExecutable))) {
    const words = program.trim().split(/\s+/)
    if (words.length > 1) return `there is no program ${JSON.stringify(program)}: ${splitFix(words)}`
    if (isPath && (await isFile(places[0]!))) return `${program} may not be executed: chmod +x ${program}`
    const fix = isPath ? 'correct the path' : 'install it, or give its full path'
    return `there is no program ${program}${isPath ? '' : ' in PATH'}: ${fix}`
  }
  const name = program.slice(program.lastIndexOf('/') + 1)
  if (first === undefined || first.startsWith('-') || !interpreters.test(name)) return undefined
  return (await isFile(resolve(first))) ? undefined : `there is no file ${resolve(first)}: give its full path`
}

function splitFix(words: readonly string[]): string {
  const [yaml, flags] = [words.join(', '), words.map((word) => `--command ${word}`).join(' ')]
  return `write each word by itself, as command: [${yaml}] in agents.yaml or ${flags}`
}

async function some(places: readonly string[], is: (place: string) => Promise<boolean>): Promise<boolean> {
  return (await Promise.all(places.map(is))).includes(true)
}

async function isExecutable(path: string): Promise<boolean> {
  return (await isFile(path)) && access(path, constants.X_OK).then(...answer)
}

export function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (stats) => stats.isFile(),
    () => false,
  )
}

const answer = [() => true, () => false] as const
