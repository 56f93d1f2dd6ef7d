import { readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { type ParseArgsConfig, parseArgs } from 'node:util'

type Options = NonNullable<ParseArgsConfig['options']>
type Values<T extends Options> = ReturnType<typeof parseArgs<{ options: T }>>['values']

/** Defaults such as `20`, and lists such as `1,2,4`. A value of such a flag has the same form. */
const NUMBER = /^\d+(\.\d+)?$/
const NUMBERS = /^\d+(,\d+)+$/

/**
 * Reads the flags of a bench program. Ends the process with 0 after `--help`, which prints the comment at the head of the
 * program and its flags, and with 2 and one line after a flag that cannot be read: no bench begins by mistake.
 */
export function readFlags<const T extends Options>(options: T): Values<T> {
  const program = process.argv[1]!
  const name = `node ${relative(process.cwd(), program)}`
  try {
    const { values } = parseArgs({ options: { ...options, help: { type: 'boolean', short: 'h' } } })
    const { help, ...given } = values as Record<string, unknown>
    if (help !== true) {
      checkNumbers(options, given)
      return given as Values<T>
    }
  } catch (error) {
    // Node's texts go on with advice about positional arguments, which no bench takes.
    const [what] = (error as Error).message.split(/[.\n]/)
    process.stderr.write(`${what} (${name} --help)\n`)
    process.exit(2)
  }
  process.stdout.write(`${headOf(readFileSync(program, 'utf8'))}\n\nUsage: ${name} [flags]\n\n${linesOf(options)}\n`)
  process.exit(0)
}

/** @throws Error that names the flag */
function checkNumbers(options: Options, given: Record<string, unknown>): void {
  for (const [flag, { default: usual }] of Object.entries(options)) {
    const [one, many] = [NUMBER.test(String(usual)), NUMBERS.test(String(usual))]
    const parts = many ? String(given[flag]).split(',') : [String(given[flag])]
    if ((one || many) && !parts.every((part) => NUMBER.test(part))) {
      throw new Error(`--${flag} takes ${many ? 'numbers, separated by commas' : 'a number'}, not "${given[flag]}"`)
    }
  }
}

function headOf(source: string): string {
  const [, comment = ''] = /^\/\*\*(.*?)\*\//s.exec(source) ?? []
  return comment.replace(/^ *\* ?/gm, '').trim()
}

function linesOf(options: Options): string {
  const lines = Object.entries(options).map(([flag, { type, default: usual }]) => {
    const shown = type === 'boolean' ? `--${flag}` : `--${flag} <value>`
    return `  ${shown}${type === 'boolean' || usual === undefined || usual === '' ? '' : ` (default: ${usual})`}`
  })
  return [...lines, '  --help'].join('\n')
}
