import { Command as Commander, CommanderError, Option as CommanderOption } from 'commander'
import * as z from 'zod'
import { loadConfig } from '../config/config.ts'
import { describeRefusal, nearest, quote } from '../config/config-error.ts'
import type { Environment } from '../config/env.ts'
import { UrlText } from '../config/values.ts'
import { stoaVersion } from '../lib/version.ts'
import type { Command, Context, Option, RemoteAddress } from './command.ts'
import { exitCodes, UsageError } from './exit-code.ts'
import { ourFlagFor, ourWordsFor } from './foreign-words.ts'
import { groupSummaries } from './group-summaries.ts'
import type { Io } from './io.ts'
import type { Parts } from './parts.ts'
import { createRedactor, type Redactor } from './redactor.ts'
import { reportError } from './report-error.ts'
import { styleOf } from './text/terminal-text.ts'

/**
 * Runs one command line.
 *
 * @param argv the words after `stoa`
 * @returns the exit status (see exit-code.ts); every error is already reported
 */
export async function runCli(
  argv: readonly string[],
  io: Io,
  parts: Parts,
  redactor: Redactor = createRedactor(io.environment),
): Promise<number> {
  const style = { stdout: styleOf(io.stdout, io.environment), stderr: styleOf(io.stderr, io.environment) }
  // A guess until the words are parsed: a task may be called --json.
  let json = argv.includes('--json')
  let status: number = exitCodes.done
  // `stoa` without arguments is the text interface on a terminal, and the help page elsewhere.
  const words = argv.length === 0 && io.stdin.isTty && io.stdout.isTty ? ['tui'] : [...argv]
  const report = (error: unknown) => reportError(error, { io, redactor, json, style: style.stderr })
  const table = await tableFor(words)
  const takesProgram = table.some((row) => row.takesProgram === true && row.name === words[0])
  const programWords = takesProgram && words.includes('--') ? words.splice(words.indexOf('--')).slice(1) : []
  const ours = ourWordsFor(words, new Set(table.map(({ name }) => name)))
  if (ours !== undefined) return report(new UsageError(ours))
  const program = buildProgram(table, io, {
    complain: (line) => report(new UsageError(line)),
    async handle(command, given, argument) {
      json = given.json === true
      const { apiUrl, token, ...values } = readValues(command, given)
      const remote = command.local === true ? undefined : remoteOf({ apiUrl, token }, io.environment)
      redactor.add(remote?.token)
      const context = createContext({ io, parts, remote, redactor, program: programWords, json, style })
      status = (await command.run(context, values, readArgument(command, argument))) ?? exitCodes.done
    },
  })
  try {
    await program.parseAsync(words, { from: 'user' })
    return status
  } catch (error) {
    // Commander has already written help or an error.
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.usage
    return report(error)
  }
}

/** The flag overrides the variable. @throws UsageError for a token without an address, or an invalid address */
function remoteOf(
  { apiUrl, token }: { apiUrl?: unknown; token?: unknown },
  environment: Environment,
): RemoteAddress | undefined {
  const named = environment.STOA_API_URL?.trim()
  const url = typeof apiUrl === 'string' ? apiUrl : named === '' ? undefined : named
  if (url === undefined) {
    if (token === undefined) return undefined
    throw new UsageError('--token needs --api-url or STOA_API_URL')
  }
  const parsed = UrlText.safeParse(url)
  if (!parsed.success) throw new UsageError(`STOA_API_URL: expected ${parsed.error.issues[0]!.message}`)
  const given = typeof token === 'string' ? token : environment.STOA_API_TOKEN?.trim()
  return { url: parsed.data.replace(/\/+$/, ''), token: given === '' ? undefined : given }
}

/** `stoa start` loads only its own command, so that a node starts faster. */
async function tableFor(argv: readonly string[]): Promise<readonly Command[]> {
  if (argv[0] === 'start') return [(await import('./commands/start.ts')).start]
  return (await import('./commands.ts')).commands
}

type Handlers = {
  /** Full names of all commands, for suggestions by the last word. */
  names?: readonly string[]
  /** Reports words that are not a command line. */
  complain(line: string): void
  handle(command: Command, given: Record<string, unknown>, argument: string | undefined): Promise<void>
}

/** Commander parses the words; the rows of the table do the rest. @internal Exported for its test. */
function buildProgram(commands: readonly Command[], io: Io, given: Handlers): Commander {
  const handlers = { ...given, names: commands.map(({ name }) => name) }
  const root = dressed(new Commander('stoa'), io, handlers)
    .description('A peer-to-peer marketplace node for AI agents. Sell and buy the work of agents for USDC.')
    .version(stoaVersion(), '-V, --version', 'show the version')
    .helpCommand('help [command]', 'show the help of a command')
    .addHelpText(
      'after',
      '\nEvery command has --help with examples and --json for programs.\n--api-url and --token control a node on another machine.\nExit status: 0 done, 1 failed, 2 usage, 3 not found, 4 refused by price or budget, 5 seller failed,\n6 unreachable, 130 interrupted.',
    )
  const groupsByName = new Map<string, Commander>([['', root]])
  const groupOf = (words: readonly string[]): Commander => {
    const name = words.join(' ')
    const known = groupsByName.get(name)
    if (known !== undefined) return known
    const group = dressed(groupOf(words.slice(0, -1)).command(words.at(-1)!), io, handlers)
    group.description(groupSummaries[name] ?? '')
    groupsByName.set(name, group)
    return group
  }
  for (const row of commands) {
    const words = row.name.split(' ')
    const made = dressed(groupOf(words.slice(0, -1)).command(words.at(-1)!), io, handlers)
    groupsByName.set(row.name, made)
    addCommand(made, row, handlers)
  }
  return root
}

function addCommand(command: Commander, row: Command, { handle }: Handlers): void {
  command.summary(row.summary)
  command.description(row.details === undefined ? `${row.summary}.` : `${row.summary}.\n\n${row.details}`)
  for (const option of Object.values(row.options)) command.addOption(commanderOption(option))
  if (row.argument !== undefined) {
    const { name, description, isOptional } = row.argument
    command.argument(`[${name}]`, description)
    // A command without its argument reports where to find one.
    command.usage(`[options] ${isOptional === true ? `[${name}]` : `<${name}>`}`)
  }
  command.addHelpText('after', `\nExamples:\n${row.examples.map((line) => `  ${line}`).join('\n')}`)
  command.action(async (first: unknown) => {
    await handle(row, command.opts(), row.argument === undefined ? undefined : (first as string | undefined))
  })
}

/** Makes a command write to the given outputs, throw where Commander would exit, and list full command names. */
function dressed(command: Commander, io: Io, { complain, names = [] }: Handlers): Commander {
  return (
    command
      .exitOverride()
      // A command may have subcommands. Options after a subcommand's name belong to the subcommand.
      .enablePositionalOptions()
      .helpOption('-h, --help', 'show help for this command')
      .helpCommand(false)
      .showSuggestionAfterError(true)
      .allowExcessArguments(false)
      .configureHelp({
        visibleCommands: leavesOf,
        // In narrower columns, Commander leaves the lines unwrapped and the terminal breaks them inside words.
        minWidthToWrap: 20,
        subcommandTerm: (leaf) => pathOf(leaf).slice(pathOf(command).length + 1),
      })
      .configureOutput({
        writeOut: (text) => io.stdout.write(text),
        writeErr: (text) => io.stderr.write(text),
        getOutHelpWidth: () => io.stdout.columns ?? 100,
        getErrHelpWidth: () => io.stderr.columns ?? 100,
        outputError: (text) => complain(complaintOf(text, command, names)),
      })
  )
}

/** Puts Commander's error on one line. Adds a pointer to the help page if there is no suggestion. */
function complaintOf(text: string, command: Commander, names: readonly string[]): string {
  const line = text
    .trim()
    .replace(/^error: /, '')
    .replace(/\s*\n\s*/g, ' ')
  const [, flag = ''] = /^unknown option '([^']*)'/.exec(line) ?? []
  const ours = ourFlagFor(flag)
  if (ours !== undefined) return ours
  const [, typed] = /^unknown command '([^']*)'/.exec(line) ?? []
  const known = names.filter((name) => typed !== undefined && name.split(' ').includes(typed)).slice(0, 4)
  if (known.length > 0) {
    return `unknown command '${typed}' (Did you mean ${known.map((name) => `stoa ${name}`).join(', or ')}?)`
  }
  const meant = typed === undefined || command.parent !== null ? undefined : meantGroup(typed, names)
  if (meant !== undefined) return `unknown command '${typed}' (Did you mean stoa ${meant}? See: stoa ${meant} --help)`
  return line.includes('Did you mean') ? line : `${line} (see: ${pathOf(command)} --help)`
}

/** Commander suggests whole commands only, so for `agents` another word than the group `agent`. */
function meantGroup(typed: string, names: readonly string[]): string | undefined {
  const meant = nearest(typed, [...new Set(names.map((name) => name.split(' ')[0] as string))])
  return meant === undefined || names.includes(meant) ? undefined : meant
}

function leavesOf(command: Commander): Commander[] {
  return command.commands.flatMap((child) => [...(isGroup(child) ? [] : [child]), ...leavesOf(child)])
}

/** Returns true for a command that only groups others. */
function isGroup(command: Commander): boolean {
  return command.commands.length > 0 && command.options.length === 0
}

function pathOf(command: Commander): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`
}

function commanderOption({ flags, description, many }: Option): CommanderOption {
  const option = new CommanderOption(flags, description)
  if (many) option.argParser((text: string, earlier: string[] | undefined) => [...(earlier ?? []), text])
  return option
}

/** Parses the values of a command's options by their schemas. @throws UsageError that names the flag */
function readValues(command: Command, given: Record<string, unknown>): Record<string, unknown> {
  const values: Record<string, unknown> = {}
  for (const [name, { flags, schema, missing }] of Object.entries(command.options)) {
    const flag = /--[a-z0-9-]+/.exec(flags)![0]
    const value = given[attributeOf(flag)]
    if (value === undefined && missing !== undefined) throw new UsageError(missing)
    // Commander sets `--no-x` to true if it is not given. Only given options are settings.
    if (value === undefined || (flag.startsWith('--no-') && value === true)) continue
    const parsed = schema === undefined ? undefined : z.safeParse(schema, value)
    if (parsed?.success === false) {
      const shown = flag === '--rpc-url' || flag === '--token' ? undefined : value
      throw new UsageError(describeRefusal(flag, shown, parsed.error.issues[0]!))
    }
    values[name] = parsed === undefined ? value : parsed.data
  }
  return values
}

function readArgument({ argument, name }: Command, given: string | undefined): string | undefined {
  if (given === undefined && argument?.missing !== undefined) throw new UsageError(argument.missing)
  const choices = argument?.choices
  if (given === undefined || choices === undefined || choices.includes(given)) return given
  const hint = argument?.hint === undefined ? '' : ` (${argument.hint})`
  throw new UsageError(`stoa ${name}: ${quote(given)} is not valid: expected ${choices.join(' or ')}${hint}`)
}

/** Commander's name for a flag: `--api-host` is apiHost, `--no-mdns` is mdns. */
function attributeOf(flag: string): string {
  return flag.replace(/^--(no-)?/, '').replace(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
}

function createContext(
  base: Pick<Context, 'io' | 'parts' | 'remote' | 'redactor' | 'program' | 'json' | 'style'>,
): Context {
  const { io, parts, redactor, json } = base
  const print: Context['print'] = (lines = '') => {
    for (const line of [lines].flat()) io.stdout.write(`${line}\n`)
  }
  const printJson = (value: unknown) =>
    io.stdout.write(`${JSON.stringify(value, null, io.stdout.isTty ? 2 : undefined)}\n`)
  return {
    ...base,
    print,
    printJson,
    printResult: (value, lines) => (json ? printJson(value) : print(lines)),
    tell: (line) => io.stderr.write(`${line}\n`),
    run: (argv, given) => runCli(argv, given, parts, redactor),
    async loadConfig(flags) {
      const loaded = await loadConfig(flags, io.environment)
      redactor.add(loaded.secrets.walletKey)
      redactor.add(loaded.config.rpcUrl)
      for (const key of loaded.hidden) redactor.add(key)
      for (const header of loaded.config.facilitatorHeaders) {
        redactor.add(loaded.secrets.env(header.slice(header.indexOf('=') + 1)))
      }
      for (const { token_env: token, headers_env: named = [] } of loaded.config.sources) {
        if (token !== undefined) redactor.add(loaded.secrets.env(token))
        for (const header of named) redactor.add(loaded.secrets.env(header.slice(header.indexOf('=') + 1)))
      }
      return loaded
    },
  }
}
