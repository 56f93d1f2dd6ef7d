import { createRequire } from 'node:module'
import type { Config } from '../config/config.ts'
import { reasonOf } from '../lib/errors.ts'
import { type Logger, lazyLogger, silentLogger } from '../lib/logger.ts'
import type { Output } from './io.ts'
import type { LogFile } from './log-file.ts'
import type { Redactor } from './redactor.ts'
import { printableLine, type Style } from './text/terminal-text.ts'

/** `require` loads synchronously, because pino is first needed while a line is written. */
const require = createRequire(import.meta.url)

/** Fields whose value is never logged, up to two levels deep. */
const hiddenFields = ['privateKey', 'walletKey', 'apiKey', 'apiToken', 'token', 'authorization', 'secrets', 'password']

/**
 * The node's log on standard error, and in a file if one is given. Readable lines on a terminal, JSON lines elsewhere.
 *
 * Known secrets are removed from every finished line, in any field or message (T21).
 */
export function createLog(
  level: Config['log']['level'],
  output: Output,
  { redactor, style, file }: { redactor: Redactor; style: Style; file?: Pick<LogFile, 'write'> },
): Logger {
  if (level === 'silent') return silentLogger
  const show = output.isTty ? (line: string) => readableLine(line, style) : (line: string) => line
  return lazyLogger(level, () => {
    const { pino } = require('pino') as typeof import('pino')
    return pino(
      {
        level,
        base: null,
        timestamp: pino.stdTimeFunctions.isoTime,
        formatters: { level: (label) => ({ level: label }) },
        serializers: { err: (thrown) => loggedError(thrown, pino.stdSerializers.err) },
        redact: { paths: hiddenFields.flatMap((name) => [name, `*.${name}`]), censor: '[secret]' },
      },
      {
        write(line: string) {
          output.write(redactor.redact(show(line)))
          file?.write(redactor.redact(line))
        },
      },
    )
  })
}

/**
 * Anything thrown, with a message. pino prints 25 constants of an abort error, and of a closed connection no reason. Its
 * `type` is the name of the class, which the bundle shortens to a letter.
 */
function loggedError(thrown: unknown, print: (error: Error) => object): object {
  if (!(thrown instanceof Error)) return { type: typeof thrown, message: reasonOf(thrown) }
  const { name: type, message, stack } = thrown
  return thrown instanceof DOMException ? { type, message, stack } : { ...print(thrown), type }
}

export function isAtLeast(json: string, level: Config['log']['level']): boolean {
  const order = Object.keys(marks)
  return order.indexOf(lineOf(json).level) >= order.indexOf(level)
}

type Line = { level: keyof typeof marks; time: string; msg: string; err?: { message?: string } }
const marks = { debug: 'debug', info: 'info ', warn: 'warn ', error: 'error' } as const

/** `12:30:01 warn  the sentence  field=value …` */
export function readableLine(json: string, style: Style): string {
  const { level, time, msg, err, ...fields } = lineOf(json)
  const paint = { debug: style.dim, info: style.dim, warn: style.yellow, error: style.red }[level]
  const details = Object.entries({ ...fields, ...(err?.message !== undefined && { error: err.message }) })
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ')
  const sentence = printableLine(msg, 1000)
  return (
    `${style.dim(time.slice(11, 19))} ${paint(marks[level])} ${sentence}  ${style.dim(printableLine(details, 500))}`.trimEnd() +
    '\n'
  )
}

/** Parses a line. A line of the file may be truncated or come from another program. */
function lineOf(json: string): Line & Record<string, unknown> {
  try {
    const { level, time, msg, ...fields } = JSON.parse(json) as Line & Record<string, unknown>
    return { ...fields, level: Object.hasOwn(marks, level) ? level : 'info', time: String(time), msg: String(msg) }
  } catch {
    return { level: 'info', time: ''.padEnd(19), msg: json }
  }
}
