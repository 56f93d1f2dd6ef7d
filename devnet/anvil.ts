import { type ChildProcess, spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { CodedError } from '../src/lib/errors.ts'

const START_TIMEOUT_MS = 10_000
const STOP_TIMEOUT_MS = 2_000
const OUTPUT_CHARS_MAX = 8_192
/** States of old blocks kept in memory. Without this limit anvil writes old states to the home directory. */
const STATES_KEPT = 256

export class AnvilError extends CodedError<'ANVIL_MISSING' | 'ANVIL_FAILED'> {
  override name = 'AnvilError'
}

/** A running anvil: a local EVM chain in its own process, on 127.0.0.1. */
export type Anvil = {
  readonly rpcUrl: string
  readonly pid: number
  /** Resolves with a description when the process ends, whether or not we asked it to end. */
  readonly exited: Promise<string>
  stop(): Promise<void>
}

export type AnvilOptions = {
  chainId: number
  /** Port of the RPC. The default, 0, picks a free port. */
  port?: number
  /** Path of the binary. The default is the npm package of this platform. */
  binary?: string
}

/**
 * Starts anvil and resolves when anvil listens.
 *
 * Anvil ends with `stop()` and when this process ends for any reason: a guard process waits until our end of its pipe
 * closes.
 *
 * @throws AnvilError that says what to do.
 */
export async function startAnvil(options: AnvilOptions): Promise<Anvil> {
  const binary = options.binary ?? findAnvil()
  const port = options.port ?? 0
  const flags = ['--host', '127.0.0.1', '--port', String(port), '--chain-id', String(options.chainId)]
  // No CORS: web pages in the developer's browser must not reach this chain.
  const limits = ['--accounts', '1', '--no-cors', '--prune-history', String(STATES_KEPT), '--color', 'never']
  // Anvil gets its own process group: Ctrl-C reaches only us, and we end the chain after its users.
  const child = spawn(binary, [...flags, ...limits], { stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  const exited = whenExited(child)
  if (child.pid !== undefined) void exited.then(guard(child))
  const { address, output } = await listening(child, exited, { binary, port })
  // We keep reading the pipes, because a full pipe would stop anvil. Neither the pipes nor the process keep our process
  // alive.
  for (const handle of [child, child.stdout, child.stderr] as unknown as { unref(): void }[]) handle.unref()

  async function stop(): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.ref()
    child.kill('SIGTERM')
    const kill = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
    await exited
    clearTimeout(kill)
  }

  return {
    rpcUrl: `http://${address}`,
    pid: child.pid as number,
    exited: exited.then((how) => `${how}${tail(output())}`),
    stop,
  }
}

/** The binary inside the npm package of this platform. @throws AnvilError `ANVIL_MISSING` */
export function findAnvil(platform: NodeJS.Platform = process.platform, arch: string = process.arch): string {
  const name = `@foundry-rs/anvil-${platform}-${arch === 'x64' ? 'amd64' : arch}`
  try {
    // npm may install the platform's package beside the main package or below it.
    const main = createRequire(import.meta.url).resolve('@foundry-rs/anvil/package.json')
    return createRequire(main).resolve(`${name}/bin/anvil${platform === 'win32' ? '.exe' : ''}`)
  } catch {
    throw new AnvilError(
      'ANVIL_MISSING',
      `the local chain needs anvil, and its package for this machine (${name}) is not installed: run \`npm install --include=optional\`; ` +
        'if the registry has no such package, install Foundry (https://getfoundry.sh) and give the path with --anvil',
    )
  }
}

type Started = { address: string; output: () => string }

function listening(
  child: ChildProcess,
  exited: Promise<string>,
  where: { binary: string; port: number },
): Promise<Started> {
  return new Promise((resolve, reject) => {
    let output = ''
    const collect = (chunk: Buffer) => {
      output = (output + chunk.toString('utf8')).slice(-OUTPUT_CHARS_MAX)
      const match = /Listening on (\S+)/.exec(output)
      if (match?.[1] !== undefined) done(() => resolve({ address: match[1] as string, output: () => output }))
    }
    const fail = (reason: string) => done(() => reject(new AnvilError('ANVIL_FAILED', explain(reason, output, where))))
    const timer = setTimeout(() => {
      fail(`the port did not open within ${START_TIMEOUT_MS} ms`)
      child.kill('SIGKILL')
    }, START_TIMEOUT_MS)
    const done = (settle: () => void) => {
      clearTimeout(timer)
      settle()
    }
    child.stdout?.on('data', collect)
    child.stderr?.on('data', collect)
    child.once('error', (error) => fail(error.message))
    void exited.then(fail)
  })
}

function explain(reason: string, output: string, { binary, port }: { binary: string; port: number }): string {
  if (/address (already )?in use|os error 98|os error 48|os error 10048/i.test(output)) {
    return `port ${port} is in use: choose another with --port, or 0 for a free one`
  }
  return `anvil (${binary}) did not start: ${reason}${tail(output)}`
}

function tail(output: string): string {
  const line = output.trim().split('\n').at(-1)?.trim() ?? ''
  return line === '' || line.startsWith('Listening on') ? '' : `: ${line.slice(0, 300)}`
}

function whenExited(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    // 'close' comes after 'exit', when all output has been read.
    child.once('close', (code, signal) => resolve(`anvil ended (${signal ?? `exit code ${code}`})`))
  })
}

const live = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of live) child.kill('SIGKILL')
})

/**
 * Ties anvil's life to ours. On an ordinary exit the listener above ends anvil. When this process is killed, the kernel
 * closes the pipe that the guard reads, and the guard ends anvil. A line on the pipe ends the guard.
 */
function guard(child: ChildProcess): () => void {
  live.add(child)
  const watch = 'read -r line || kill -9 "$1"'
  const shell = spawn('/bin/sh', ['-c', watch, 'anvil-guard', String(child.pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  // Without /bin/sh (Windows), only the exit listener ends anvil.
  shell.on('error', () => {})
  shell.stdin.on('error', () => {})
  shell.unref()
  ;(shell.stdin as unknown as { unref(): void }).unref()
  return () => {
    live.delete(child)
    shell.stdin.end('done\n')
  }
}
