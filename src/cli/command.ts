import * as z from 'zod'
import type { Config } from '../config/config.ts'
import type { Secrets } from '../config/secrets.ts'
import type { Settings } from '../config/settings.ts'
import { PathText, UrlText } from '../config/values.ts'
import type { Io } from './io.ts'
import type { Parts } from './parts.ts'
import type { Redactor } from './redactor.ts'
import type { Style } from './text/terminal-text.ts'

/** One option of a command: its flags, and the schema that parses its text. */
export type Option<T = unknown> = {
  flags: string
  description: string
  /** Undefined for a switch, which takes no text. */
  schema?: z.ZodType<T>
  many?: true
  /** What to say where the option is not given. Without it, the option may be left out. */
  missing?: string
}
type Options = Readonly<Record<string, Option>>
type ValueOf<O> = O extends Option<infer T> ? T : never
export type ValuesOf<O extends Options> = { [K in keyof O]?: ValueOf<O[K]> | undefined } & {
  [K in keyof O as O[K] extends { missing: string } ? K : never]: ValueOf<O[K]>
}

/** The API of a node elsewhere, and its token. */
export type RemoteAddress = { url: string; token: string | undefined }

export type Context = {
  io: Io
  parts: Parts
  redactor: Redactor
  /** The node that `--api-url` or STOA_API_URL names. Replaces the node on the data directory. */
  remote: RemoteAddress | undefined
  /** The words after `--`, for a command that takes a program. */
  program: readonly string[]
  /** `--json`: standard output contains only JSON. */
  json: boolean
  /** Colors of standard output and standard error. */
  style: { stdout: Style; stderr: Style }
  /** Writes lines to standard output. */
  print(lines?: string | readonly string[]): void
  printJson(value: unknown): void
  /** Writes the result of the command: the value with `--json`, otherwise the lines. */
  printResult(value: unknown, lines: string | readonly string[]): void
  /** Writes a line to standard error: information in addition to the result. */
  tell(line: string): void
  /** Flags override the environment, config.yaml and the defaults, in this order. @throws ConfigError */
  loadConfig(flags: Settings): Promise<{ config: Config; secrets: Secrets }>
  /** Runs another command line in this process. Resolves with its exit status. */
  run(argv: readonly string[], io: Io): Promise<number>
}

type Argument = {
  name: string
  description: string
  isOptional?: true
  /** What to say where the argument is not given. Without it, the command checks that itself. */
  missing?: string
  choices?: readonly string[]
  hint?: string
}
type ArgumentOf<A> = A extends { missing: string } ? string : string | undefined

/** A command as data. The program is built from a table of commands. */
export type Command = {
  /** Its words after `stoa`. */
  name: string
  summary: string
  details?: string
  examples: readonly string[]
  /** The command needs files and processes of this machine, so it cannot use a node elsewhere. */
  local?: true
  /** Words after `--` are a program and its arguments (`Context.program`). */
  takesProgram?: true
  options: Options
  argument?: Argument
  /** Resolves with the exit status, or with nothing where that is `done`. */
  run(
    context: Context,
    values: Readonly<Record<string, unknown>>,
    argument: string | undefined,
  ): Promise<number> | Promise<void>
}

type CommandRow<O extends Options, A> = Omit<Command, 'options' | 'argument' | 'run'> & {
  options?: O
  argument?: A
  run(
    context: Context,
    values: ValuesOf<O & typeof commonOptions>,
    argument: ArgumentOf<A>,
  ): Promise<number> | Promise<void>
}

/** A row of the table. The types check its handler against its options. Every command has `--data-dir` and `--json`. */
export function command<O extends Options = Record<never, never>, A extends Argument | undefined = undefined>(
  row: CommandRow<O, A>,
): Command {
  const options = { ...row.options, ...commonOptions, ...(row.local !== true && remoteOptions) }
  return { ...row, options } as unknown as Command
}

export function option<T>(flags: string, description: string, schema: z.ZodType<T>): Option<T> {
  return { flags, description, schema }
}

export function repeated<T>(flags: string, description: string, schema: z.ZodType<T>): Option<T> {
  return { flags, description, schema, many: true }
}

export function required<T>(row: Option<T>, missing: string): Option<T> & { missing: string } {
  return { ...row, missing }
}

export function flag(flags: string, description: string): Option<boolean> {
  return { flags, description }
}

export const commonOptions = {
  dataDir: option(
    '--data-dir <path>',
    'directory with the keys, the database and the settings (default: ~/.stoa)',
    PathText,
  ),
  json: flag('--json', 'write only JSON to standard output'),
} as const

/** Options of every command that calls a node. */
const remoteOptions = {
  apiUrl: option('--api-url <url>', 'URL of the API of a node on another machine (or STOA_API_URL)', UrlText),
  token: option('--token <token>', 'token for that API (safer: STOA_API_TOKEN)', z.string().min(1, 'a token')),
} as const

const agentIdOption = option(
  '--agent-id <agent>',
  'the agent: its id, the start of its id, its name, or seller/name (required)',
  z.string(),
)
export const agentOption = required(agentIdOption, '--agent-id is missing: `stoa agent discover` lists the agents')
/** For a command that takes only agents of this node. */
export const ownAgentOption = required(
  agentIdOption,
  '--agent-id is missing: `stoa agent list` lists the agents of this node',
)
