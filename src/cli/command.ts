import type * as z from 'zod'
import type { Config } from '../config/config.ts'
import type { Secrets } from '../config/secrets.ts'
import type { Settings } from '../config/settings.ts'
import { PathText } from '../config/values.ts'
import type { Io } from './io.ts'
import type { Parts } from './parts.ts'
import type { Redactor } from './redactor.ts'
import type { Style } from './terminal-text.ts'

/** One option of a command: how it is written, and how its text becomes a value. */
export type Option<T = unknown> = {
  flags: string
  description: string
  /** None: a switch, which takes no text. */
  schema?: z.ZodType<T>
  /** May be given several times. */
  many?: true
}
export type Options = Readonly<Record<string, Option>>
export type ValuesOf<O extends Options> = { [K in keyof O]?: (O[K] extends Option<infer T> ? T : never) | undefined }

/** What a command works with. */
export type Context = {
  io: Io
  parts: Parts
  redactor: Redactor
  /** `--json`: standard output holds JSON and nothing else. */
  json: boolean
  /** Colours of standard output and of standard error. */
  style: { stdout: Style; stderr: Style }
  /** Writes a line to standard output. */
  print(line?: string): void
  printJson(value: unknown): void
  /** Tells the user something beside the result: a line on standard error. */
  tell(line: string): void
  /** Flag over environment over config.yaml over default. @throws ConfigError */
  loadConfig(flags: Settings): Promise<{ config: Config; secrets: Secrets }>
}

/** A command is data; the program is built from a table of them. */
export type Command = {
  /** Its words after `stoa`. */
  name: string
  summary: string
  /** More for its own help page. */
  details?: string
  examples: readonly string[]
  options: Options
  /** A word it takes beside its options. */
  argument?: {
    name: string
    description: string
    choices?: readonly string[]
    /** For who gives it something else. */
    hint?: string
  }
  /** Resolves with the exit status. */
  run(context: Context, values: Readonly<Record<string, unknown>>, argument: string | undefined): Promise<number>
}

type Row<O extends Options> = Omit<Command, 'options' | 'run'> & {
  options: O
  run(context: Context, values: ValuesOf<O>, argument: string | undefined): Promise<number>
}

/** A row of the table, its handler checked against its own options. Every command has `--data-dir` and `--json`. */
export function command<O extends Options>(row: Row<O & typeof commonOptions>): Command {
  return row as unknown as Command
}

export function option<T>(flags: string, description: string, schema: z.ZodType<T>): Option<T> {
  return { flags, description, schema }
}

export function repeated<T>(flags: string, description: string, schema: z.ZodType<T>): Option<T> {
  return { flags, description, schema, many: true }
}

export function flag(flags: string, description: string): Option<boolean> {
  return { flags, description }
}

export const commonOptions = {
  dataDir: option('--data-dir <path>', 'directory of keys, database and settings (default: ~/.stoa)', PathText),
  json: flag('--json', 'write JSON to standard output, and nothing else'),
} as const
