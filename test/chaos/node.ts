import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { endLease } from '../support/server-ledgers.ts'
import type { ChaosMessage } from './chaos-node.ts'
import type { LoopReport } from './loop-watch.ts'

const PROGRAM = fileURLToPath(new URL('./chaos-node.ts', import.meta.url))
/** Six nodes that start on busy cores take minutes. */
const READY_MS = 180_000
const LOG_CHARS_MAX = 200_000

export type NodeOptions = {
  name: string
  args: readonly string[]
  environment: Record<string, string>
  /** A killed process keeps its lease, as it would anywhere. */
  waitsForLease?: boolean
}

/** A node that a run restarts many times. */
export class ChaosNode {
  readonly name: string
  readonly #options: NodeOptions
  #child: ChildProcess | undefined
  #url = ''
  #log = ''
  /** Exits that the run did not cause. */
  readonly unasked: string[] = []
  peerId = ''
  starts = 0
  /** The process before this one. */
  #lastPid: number | undefined

  constructor(options: NodeOptions) {
    this.name = options.name
    this.#options = options
  }

  get url(): string {
    return this.#url
  }

  get isUp(): boolean {
    return this.#url !== ''
  }

  log(): string {
    return this.#log
  }

  async start(): Promise<void> {
    const { PATH = '', HOME = '' } = process.env
    const { environment, waitsForLease = false } = this.#options
    const { DATABASE_URL } = environment
    // A short run has no time to wait for the lease of a process that is known to be dead.
    if (!waitsForLease && DATABASE_URL !== undefined && this.#lastPid !== undefined)
      await endLease(DATABASE_URL, this.#lastPid)
    const quiet = ['--json', '--api-port', '0', '--no-mdns', '--log-level', 'info']
    const child = spawn(process.execPath, ['--no-warnings', PROGRAM, 'start', ...quiet, ...this.#options.args], {
      env: { PATH, HOME, NODE_LISTEN_HOST: '127.0.0.1', ...this.#options.environment },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    })
    this.#child = child
    this.#lastPid = child.pid
    this.#log += `--- start ${++this.starts}\n`
    child.stderr!.setEncoding('utf8').on('data', (part: string) => {
      this.#log = (this.#log + part).slice(-LOG_CHARS_MAX)
    })
    child.on('error', () => {})
    child.once('exit', (code, signal) => {
      if (this.#child !== child) return
      this.#child = undefined
      this.#url = ''
      // The run kills nodes with SIGKILL. Any other exit is the node's own.
      if (signal !== 'SIGKILL') this.unasked.push(`ended with ${signal ?? `exit status ${code}`}`)
    })
    const [line] = (await Promise.race([
      once(createInterface({ input: child.stdout! }), 'line', { signal: AbortSignal.timeout(READY_MS) }),
      once(child, 'exit').then(([code, signal]) =>
        Promise.reject(new Error(`${this.name} did not start (${signal ?? code}): ${this.#log.slice(-2_000)}`)),
      ),
    ])) as [string]
    const ready = JSON.parse(line) as { api_url: string; peer_id: string }
    this.#url = ready.api_url
    this.peerId = ready.peer_id
  }

  tell(message: ChaosMessage): void {
    if (this.#child?.connected === true) this.#child.send(message, () => {})
  }

  /** Delays of the node's event loop since the last report. */
  async loopReport(): Promise<LoopReport | undefined> {
    const child = this.#child
    if (child?.connected !== true) return undefined
    child.send({ loop: 'report' } satisfies ChaosMessage, () => {})
    return once(child, 'message', { signal: AbortSignal.timeout(10_000) }).then(
      ([report]) => report as LoopReport,
      () => undefined,
    )
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal)
  }

  /** Kills or stops the node, and resolves when its process has ended. */
  async end(how: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#child
    if (child === undefined) return
    this.#child = undefined
    this.#url = ''
    const gone = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined
    child.kill('SIGCONT')
    child.kill(how)
    const timer = setTimeout(() => child.kill('SIGKILL'), 15_000)
    await gone
    clearTimeout(timer)
  }

  /**
   * Resolves when the node has ended by itself, for example at a fault point, or after `limitMs`. @returns whether the
   * node has ended
   */
  async endsWithin(limitMs: number): Promise<boolean> {
    const child = this.#child
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return true
    return once(child, 'exit', { signal: AbortSignal.timeout(limitMs) }).then(
      () => true,
      () => false,
    )
  }
}
