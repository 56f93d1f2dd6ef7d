import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { bundledNode } from './bundled-node.ts'
import { until } from './until.ts'

/** A worker in its own process. */
export type WorkerProcess = {
  readonly child: ChildProcess
  /** Ends with the process. */
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  /** Resolves when the seller has let the worker in for the nth time. */
  joined(times?: number): Promise<void>
  log(): string
  kill(signal: NodeJS.Signals): Promise<void>
}

const running = new Set<WorkerProcess>()

/** Starts `stoa worker` with these agents in its own data directory. */
export async function startWorkerProcess(options: {
  dataDir: string
  token: string
  /** The entries of agents.yaml. */
  agents: readonly object[]
  runs?: number
}): Promise<WorkerProcess> {
  const { dataDir, token, agents, runs = 1 } = options
  // JSON is YAML.
  await writeFile(join(dataDir, 'agents.yaml'), JSON.stringify({ agents }))
  const { PATH = '', HOME = '' } = process.env
  const argv = [
    '--no-warnings',
    await bundledNode(),
    '-',
    'worker',
    '--data-dir',
    dataDir,
    '--runs',
    `${runs}`,
    '--json',
  ]
  const child = spawn(process.execPath, argv, {
    env: { PATH, HOME, STOA_JOIN_TOKEN: token },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const seen = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    seen.stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    seen.stderr += text
  })
  const exited = (once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>).then(([code, signal]) => {
    running.delete(worker)
    return { code, signal }
  })
  const worker: WorkerProcess = {
    child,
    exited,
    log: () => seen.stderr,
    async joined(times = 1) {
      await until(() => seen.stdout.split('"joined"').length > times, { everyMs: 20 })
    },
    async kill(signal) {
      child.kill(signal)
      await exited
    },
  }
  running.add(worker)
  return worker
}

/** Kills every worker that tests of this file have left running. */
export async function killWorkerProcesses(): Promise<void> {
  await Promise.all([...running].map((worker) => worker.kill('SIGKILL')))
}
