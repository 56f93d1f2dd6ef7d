import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

/** A file that is `stoa`, and what its command line begins with. */
type Program = readonly [file: string, ...words: string[]]
const STOA: Program = [fileURLToPath(new URL('../bin/stoa.js', import.meta.url))]
/** Several nodes that start at once on two busy cores take half a minute. */
const READY_MS = 60_000
const STOP_MS = 8_000
const STDERR_CHARS_KEPT = 8_000

/** The line that `stoa start --json` prints when it listens. */
export type Ready = {
  event: 'ready'
  pid: number
  api_url: string
  peer_id: string
  addresses: string[]
  wallet_address: `0x${string}`
  agents: { id: string; name: string; price: number; model: string }[]
  warnings: string[]
}

/** A node in its own process, started by the real command line. */
export type NodeProcess = {
  readonly ready: Ready
  readonly child: ChildProcess
  /** The end of the node's log. */
  log(): string
  /** Sends SIGTERM and resolves with the exit code. */
  stop(): Promise<number | null>
}

type Environment = Record<string, string>

/**
 * Runs `stoa` with these arguments until it ends. Resolves with its standard output; a failure throws the program's
 * message.
 */
export async function runStoa(
  args: readonly string[],
  environment: Environment,
  program: Program = STOA,
): Promise<string> {
  const child = spawnStoa(args, environment, program)
  const [output, said] = [collect(child.stdout), collect(child.stderr)]
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0) throw new Error(`stoa ${args.slice(0, 2).join(' ')} ended with ${code}: ${said()}`)
  return output()
}

/** Starts a node and waits until it listens. One that does not in time is ended: it would keep its data directory. */
export async function startNode(
  args: readonly string[],
  environment: Environment,
  { inTime = AbortSignal.timeout(READY_MS), program = STOA }: { inTime?: AbortSignal; program?: Program } = {},
): Promise<NodeProcess> {
  const child = spawnStoa(['start', '--json', ...args], environment, program)
  const log = collect(child.stderr, STDERR_CHARS_KEPT)
  const exited = once(child, 'close') as Promise<[number | null]>
  const ready = await Promise.race([
    firstLine(child, inTime),
    exited.then(([code]) => Promise.reject(new Error(`stoa start ended with ${code}: ${log()}`))),
  ]).catch(async (error) => {
    child.kill('SIGKILL')
    await exited
    throw inTime.aborted
      ? new Error(`stoa start does not listen yet, and was ended: ${log()}`, { cause: error })
      : error
  })
  return {
    ready: JSON.parse(ready) as Ready,
    child,
    log,
    async stop() {
      child.kill('SIGTERM')
      const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
      const [code] = await exited
      clearTimeout(late)
      return code
    },
  }
}

export function spawnStoa(args: readonly string[], environment: Environment, program: Program = STOA): ChildProcess {
  const { PATH = '', HOME = '' } = process.env
  return spawn(process.execPath, [...program, ...args], {
    env: { PATH, HOME, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

async function firstLine(child: ChildProcess, signal: AbortSignal): Promise<string> {
  const lines = createInterface({ input: child.stdout! })
  const [line] = (await once(lines, 'line', { signal })) as [string]
  return line
}

function collect(stream: NodeJS.ReadableStream | null, charsMax = Number.POSITIVE_INFINITY): () => string {
  let text = ''
  stream?.setEncoding('utf8').on('data', (part: string) => {
    text = (text + part).slice(-charsMax)
  })
  return () => text
}
