import * as z from 'zod'
import type { Config } from '../config/config.ts'
import type { Secrets } from '../config/secrets.ts'
import type { Settings } from '../config/settings.ts'
import { PathText, UrlText } from '../config/values.ts'
import type { Io } from './io.ts'
import type { Parts } from './parts.ts'
import type { Redactor } from './redactor.ts'
import type { Style } from './text/terminal-text.ts'

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

/** Where the API of a node elsewhere is, and the token for it. */
export type RemoteAddress = { url: string; token: string | undefined }

/** What a command works with. */
export type Context = {
  io: Io
  parts: Parts
  redactor: Redactor
  /** The node that `--api-url` or STOA_API_URL names, instead of the one that runs on the data directory. */
  remote: RemoteAddress | undefined
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
  /** It works with files and processes of this machine: no node elsewhere can be named. */
  local?: true
  options: Options
  /** A word it takes beside its options. */
  argument?: {
    name: string
    description: string
    /** The command does something without it too. */
    isOptional?: true
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
  const { options } = row
  return { ...row, options: row.local === true ? options : { ...options, ...remoteOptions } } as unknown as Command
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

/** Of every command that asks a node. */
export const remoteOptions = {
  apiUrl: option('--api-url <url>', 'the API of a node elsewhere (or STOA_API_URL)', UrlText),
  token: option('--token <token>', 'token for that API (better: STOA_API_TOKEN)', z.string().min(1, 'a token')),
} as const
