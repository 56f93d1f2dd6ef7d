import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { bundledNode } from './bundled-node.ts'
import { engineEnvironment } from './ledger-engine.ts'
import { endLease } from './server-ledgers.ts'
import { until } from './until.ts'

/** Seven nodes that start at once on two busy cores take half a minute, and on a slower machine minutes. */
const READY_MS = 180_000
const LOG_CHARS_MAX = 8_000

/** The line that `stoa start --json` prints when it listens. */
export type Ready = {
  api_url: string
  peer_id: string
  addresses: string[]
  wallet_address: string
  warnings: string[]
}

/** A node in its own process. */
export type NodeProcess = {
  readonly ready: Ready
  readonly child: ChildProcess
  /** The exit code or the signal that ended the process. */
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  log(): string
  /** Arms the fault point of a process that was started with `armsLater`. */
  arm(): Promise<void>
  /** Stops the node in good order, unless it has ended already. */
  stop(): Promise<void>
}

const running = new Map<ChildProcess, Promise<unknown>>()

/** Starts `stoa start` and resolves when the node listens. At `faultPoint` the node ends as by a power cut. */
export async function startNodeProcess(options: {
  faultPoint?: string | undefined
  /** True: the node runs until `arm` was called, as if there were no fault point. */
  armsLater?: boolean
  /** The program with fault points of another checkout. */
  faultyNode?: string
  /** The `stoa` program to run instead of the source with fault points. */
  program?: string
  /** The Node.js to run it, if it is not the one of the tests. */
  execPath?: string
  args: readonly string[]
  environment: Record<string, string>
  /** Maximum number of open files. */
  openFiles?: number
}): Promise<NodeProcess> {
  const { PATH = '', HOME = '' } = process.env
  const quiet = ['--json', '--port', '0', '--api-port', '0', '--no-mdns', '--log-level', 'warn']
  const { faultPoint = '-', armsLater = false } = options
  const faulty = [options.faultyNode ?? (await bundledNode()), `${armsLater ? '@' : ''}${faultPoint}`]
  const program = options.program === undefined ? faulty : [options.program]
  const args = ['--no-warnings', ...program, 'start', ...quiet, ...options.args]
  const flag = options.args.indexOf('--data-dir')
  const dataDir = flag === -1 ? options.environment.NODE_DATA_DIR : options.args[flag + 1]
  const isGiven = options.environment.DATABASE_URL !== undefined
  const engine = isGiven ? {} : await engineEnvironment(dataDir)
  const limit = options.openFiles === undefined ? '' : `ulimit -n ${options.openFiles}; `
  const child = spawn('/bin/sh', ['-c', `${limit}exec "$0" "$@"`, options.execPath ?? process.execPath, ...args], {
    env: { PATH, HOME, NODE_LISTEN_HOST: '127.0.0.1', ...engine, ...options.environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', (part: string) => {
    log = (log + part).slice(-LOG_CHARS_MAX)
  })
  const exited = (once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>).then(
    async ([code, signal]) => {
      // Who has a database from the test lets it wait.
      if (code !== 0 && engine.DATABASE_URL !== undefined) await endLease(engine.DATABASE_URL, child.pid!)
      running.delete(child)
      return { code, signal }
    },
  )
  running.set(child, exited)
  const ready = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line', { signal: AbortSignal.timeout(READY_MS) }),
    exited.then((end) => Promise.reject(new Error(`stoa start ended with ${JSON.stringify(end)}: ${log}`))),
  ])
  return {
    ready: JSON.parse(ready[0] as string) as Ready,
    child,
    exited,
    log: () => log,
    async arm() {
      child.kill('SIGUSR2')
      await until(() => log.includes('the fault point is armed'))
    },
    async stop() {
      child.kill('SIGTERM')
      await exited
    },
  }
}

/** Kills every process that tests of this file have left running. */
export async function killNodeProcesses(): Promise<void> {
  await Promise.all(
    [...running].map(async ([child, exited]) => {
      child.kill('SIGKILL')
      await exited
    }),
  )
}
