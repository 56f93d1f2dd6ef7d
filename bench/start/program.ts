import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

/** A program to start. It prints a line when it is ready. */
export type Program = {
  name: string
  file: string
  args(dataDir: string): string[]
  /** Text of the line that reports readiness. */
  ready: string
}

export type Start = { readyMs: number; rssMb: number | undefined }

const READY_MS_MAX = 30_000
const MB = 1024

/**
 * Starts a program and ends it. Measures the time until it listens and, after `settleMs` at rest, its resident memory.
 * With a `settleMs` of 0 only the time is measured. The program's data and the compile cache lie in `directory`.
 */
export async function startOnce(program: Program, options: { directory: string; settleMs: number }): Promise<Start> {
  const { directory } = options
  const dataDir = join(directory, program.name.replaceAll(/[^a-z]+/gi, '-'))
  const env = { ...process.env, NODE_COMPILE_CACHE: join(directory, 'compile-cache'), NODE_LISTEN_HOST: '127.0.0.1' }
  const from = performance.now()
  const child = spawn(process.execPath, [program.file, ...program.args(dataDir)], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  try {
    await readyLine(child, program)
    const readyMs = performance.now() - from
    if (options.settleMs === 0) return { readyMs, rssMb: undefined }
    await delay(options.settleMs)
    return { readyMs, rssMb: residentMb(child.pid!) }
  } finally {
    const exited = child.exitCode === null ? new Promise((resolve) => child.once('exit', resolve)) : undefined
    child.kill('SIGTERM')
    const kill = setTimeout(() => child.kill('SIGKILL'), 5_000)
    await exited
    clearTimeout(kill)
  }
}

function readyLine(child: ChildProcess, { name, ready }: Program): Promise<void> {
  return new Promise((resolve, reject) => {
    let output = ''
    const fail = (reason: string) => reject(new Error(`${name} ${reason}: ${output.slice(-2000)}`))
    const timer = setTimeout(() => fail(`was not ready within ${READY_MS_MAX} ms`), READY_MS_MAX)
    const collect = (chunk: Buffer) => {
      output += chunk.toString('utf8')
      if (!output.includes(ready)) return
      clearTimeout(timer)
      resolve()
    }
    child.stdout?.on('data', collect)
    child.stderr?.on('data', collect)
    child.once('error', (error) => fail(error.message))
    child.once('exit', (code) => fail(`ended with status ${code}`))
  })
}

function residentMb(pid: number): number {
  return Number(execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' })) / MB
}
