import { PortText } from '../../config/values.ts'
import { BoundedMap } from '../../lib/bounded-map.ts'
import { orAborted, pause } from '../../lib/wait.ts'
import { dataFile } from '../../store/data-dir.ts'
import type { InterfaceDeps, Output } from '../../tui/interface.ts'
import type { Panel } from '../../tui/screen-state.ts'
import { type Command, type Context, command, commonOptions, option, type ValuesOf } from '../command.ts'
import { placesOf } from '../completion.ts'
import { exitCodes, UsageError } from '../exit-code.ts'
import type { Io } from '../io.ts'
import { readableLine } from '../log.ts'
import { followLog, readLogTail } from '../log-file.ts'
import { type HostedNode, hostNode, noInput } from '../node-access/hosted-node.ts'
import { networkOptions } from '../node-access/network-options.ts'
import { findRunningNode } from '../node-access/running-node.ts'
import type { RemoteNode } from '../parts.ts'
import { absentPanel, panelOf } from '../text/panel.ts'
import { completeSlashLine, notHere, readSlashLine } from '../text/slash-line.ts'
import { onlyColors, printableLine, type Style } from '../text/terminal-text.ts'

const LOOK_MS = 1000
/** Shorter interval while no node answers, because one may be starting. */
const LOOK_FOR_MS = 200
/** Interval for reading the balance from the chain. Longer than that of the node's status. */
const BALANCE_MS = 20_000
const LOG_LINES = 50
/** Shown ids kept for completion: the latest. */
const IDS_MAX = 50
const idPattern = /\b(?:[a-z2-7]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b/g

const options = {
  ...networkOptions,
  apiPort: option('--api-port <port>', 'port of the HTTP API (default: 8424)', PortText),
  ...commonOptions,
} as const
type Flags = ValuesOf<typeof options>

/** `stoa tui`, or `stoa` without arguments on a terminal. */
export function tuiOf(table: () => readonly Command[]): Command {
  return command({
    name: 'tui',
    summary: 'Open the terminal interface: status, log and all commands on one screen (same as stoa without arguments)',
    details:
      'Uses the node that runs on the data directory. If no node runs, starts one with these options and stops it when you leave.',
    examples: ['stoa tui', 'stoa tui --data-dir ./buyer --port 4002 --api-port 8425'],
    options,
    async run(context, flags) {
      const { io } = context
      if (!io.stdin.isTty || !io.stdout.isTty) {
        throw new UsageError('this is not a terminal: start a node with stoa start, or see stoa --help')
      }
      const { config } = await context.loadConfig(flags)
      // Every command here uses this data directory and this node, even if its flags name others.
      const { remote } = context
      const environment = {
        ...io.environment,
        NODE_DATA_DIR: config.dataDir,
        ...(remote && { STOA_API_URL: remote.url, STOA_API_TOKEN: remote.token }),
      }
      const { runInterface } = await import('../../tui/interface.ts')
      const waiting: string[] = []
      const desk = createDesk(context, { environment, table: table(), waiting })
      let node: HostedNode | undefined
      let hosting: Promise<unknown> | undefined
      let hasStopped = false
      await runInterface({
        ...desk,
        begin(print) {
          const host = {
            environment,
            words: startWords(flags),
            run: context.run,
            say: (line: string) => print(onlyColors(line)),
            stopped: () => {
              hasStopped = true
            },
          }
          hosting = hostNode({ ...context, loadConfig: () => context.loadConfig(flags) }, host).then(
            (hosted) => {
              node = hosted
            },
            (error: unknown) => {
              hasStopped = true
              print(`error: ${onlyColors(error instanceof Error ? error.message : String(error))}`)
            },
          )
        },
        watchLog: (show, signal) => watchLog(dataFile(config.dataDir, 'log'), context, show, signal),
        watchStatus: (show, signal) =>
          watchStatus(context, { flags, waiting, show, hasStopped: () => hasStopped }, signal),
        stdin: process.stdin,
        stdout: process.stdout,
        signal: io.signal,
      })
      await hosting
      if (node?.own === true) context.tell(context.style.stderr.dim('stopping the node'))
      await node?.stop()
    },
  })
}

type Desk = Pick<InterfaceDeps, 'run' | 'complete' | 'welcome'>

/** Converts lines to command lines, and their output to lines. */
function createDesk(
  { style, run }: Context,
  {
    environment,
    table,
    waiting,
  }: { environment: Io['environment']; table: readonly Command[]; waiting: readonly string[] },
): Desk {
  const places = placesOf(table)
  const ids = new BoundedMap<string, true>(IDS_MAX)
  const show = (output: Output, line: string) => {
    for (const [id] of line.matchAll(idPattern)) ids.set(id, true)
    output.print(onlyColors(line))
  }
  return {
    welcome: [style.stdout.dim('/help lists the commands. Tab completes commands, and ids that were shown.')],
    complete: (text) => completeSlashLine(text, places, { shown: [...ids.keys()].reverse(), waiting: [...waiting] }),
    async run(line, output) {
      const read = readSlashLine(line, table)
      if (read.kind === 'leave' || read.kind === 'clear') return read.kind
      if (read.kind === 'mistake') output.print(style.stdout.red(read.text))
      else if (read.kind === 'help') output.print(...helpLines(table, output.columns, style.stdout))
      else {
        const out = lineWriter((text) => show(output, text))
        const err = lineWriter((text) => show(output, text))
        const status = await run(read.argv, {
          stdout: { isTty: true, columns: output.columns, write: out.write },
          stderr: { isTty: false, columns: output.columns, write: err.write },
          stdin: noInput,
          environment,
          signal: output.signal,
        })
        out.end()
        err.end()
        if (status !== exitCodes.done && status !== exitCodes.usage) output.print(style.stdout.dim(`status ${status}`))
      }
      return undefined
    },
  }
}

function helpLines(table: readonly Command[], width: number, { bold, dim }: Style): string[] {
  const rows = table.filter(({ name }) => !notHere.includes(name)).map(({ name, summary }) => [`/${name}`, summary])
  const all = [...rows, ['/clear', 'clear the screen'], ['/exit', 'leave']]
  const nameWidth = Math.max(...all.map(([name = '']) => name.length))
  return [
    ...all.map(
      ([name = '', text = '']) =>
        `${bold(name.padEnd(nameWidth))}  ${dim(printableLine(text, Math.max(8, width - nameWidth - 2)))}`,
    ),
    '',
    dim(
      '/help <command> explains a command. /agent execute <id> <task …>, /order <id> and /workflow <id> need no flags.',
    ),
  ]
}

function lineWriter(show: (line: string) => void) {
  let rest = ''
  return {
    write(text: string): void {
      const lines = (rest + text).split('\n')
      rest = lines.pop()!
      for (const line of lines) show(line)
    },
    end(): void {
      if (rest !== '') show(rest)
      rest = ''
    },
  }
}

async function watchLog(path: string, context: Context, show: (line: string) => void, signal: AbortSignal) {
  const say = (line: string) => show(onlyColors(readableLine(line, context.style.stdout).trimEnd()))
  const next = await followLog(path, signal)
  for (const line of await readLogTail(path, LOG_LINES)) say(line)
  for await (const line of next) say(line)
}

/** Waits for a node and then shows its status. Starts again when the node is gone. */
async function watchStatus(
  context: Context,
  {
    flags,
    waiting,
    show,
    hasStopped,
  }: {
    flags: Flags
    /** Ids of pending approvals, kept up to date. */
    waiting: string[]
    show(panel: Panel): void
    /** True after the node of this process has ended by itself, or could not start. */
    hasStopped(): boolean
  },
  signal: AbortSignal,
) {
  const { config, secrets } = await context.loadConfig(flags)
  const style = context.style.stdout
  const quiet = { parts: context.parts, io: { ...context.io, signal } }
  let node: RemoteNode | undefined
  let balance = ''
  let askedAt = Number.NEGATIVE_INFINITY
  let hasAnswered = false
  const absent = () => {
    const how = hasAnswered ? 'gone' : hasStopped() ? 'refused' : 'starting'
    return absentPanel(config.dataDir, how, style)
  }
  while (!signal.aborted) {
    try {
      node ??= (await findRunningNode(quiet, config, secrets))?.node
      const state = await node?.status({ signal })
      hasAnswered ||= state !== undefined
      const pending = (await node?.approvals({ status: 'pending' }, { signal })) ?? []
      waiting.splice(0, waiting.length, ...pending.map(({ id }) => id))
      show(state === undefined ? absent() : panelOf(state, { balance, waiting: pending.length }, style))
      if (state !== undefined && performance.now() - askedAt > BALANCE_MS) {
        askedAt = performance.now()
        const found = await orAborted(node!.balance({ signal }), signal).catch(() => undefined)
        balance = found === undefined ? '' : `${found.balance} ${found.symbol}`
        show(panelOf(state, { balance, waiting: pending.length }, style))
      }
    } catch {
      node = undefined
      show(absent())
    }
    await pause(node === undefined ? LOOK_FOR_MS : LOOK_MS, signal)
  }
}

function startWords({ port, apiPort, bootstrap, mdns, network, rpcUrl, logLevel }: Flags): string[] {
  const worded = (flag: string, value: string | number | undefined) => (value === undefined ? [] : [`${flag}=${value}`])
  return [
    ...worded('--port', port),
    ...worded('--api-port', apiPort),
    ...(bootstrap ?? []).flatMap((address) => worded('--bootstrap', address)),
    ...(mdns === false ? ['--no-mdns'] : []),
    ...worded('--network', network),
    ...worded('--rpc-url', rpcUrl),
    ...worded('--log-level', logLevel),
  ]
}
