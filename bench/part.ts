import { type ChildProcess, fork } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** One process of a bench. It starts with a setup, answers questions and stops. */
export type Part = {
  /** The part's message when it was ready. */
  readonly ready: Record<string, string>
  /** CPU time used so far, in ms. */
  cpuMs(): Promise<number>
  ask<T>(question: unknown): Promise<T>
  stop(): Promise<void>
}

export type StartOptions = { file: string; setup?: Record<string, string>; profileDir?: string | undefined }

type Question = { id: number; kind: 'setup' | 'cpu' | 'ask' | 'stop'; value: unknown }
type Answer = { id: number; value?: unknown; error?: string }

const ANSWER_MS_MAX = 300_000

/** Starts a file of this folder in its own process, under the same Node. @throws Error with the part's failure */
export async function startPart(options: StartOptions): Promise<Part> {
  const { file, setup = {}, profileDir } = options
  const execArgv = profileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDir}`]
  const child = fork(new URL(file, import.meta.url), { execArgv, serialization: 'advanced' })
  const send = conversation(child, file)
  const ready = await send<Record<string, string>>('setup', setup)
  return {
    ready,
    cpuMs: () => send<number>('cpu', undefined),
    ask: (question) => send('ask', question),
    async stop() {
      await send('stop', undefined).catch(() => {})
      if (child.exitCode === null) await new Promise((resolve) => child.once('exit', resolve))
    },
  }
}

/**
 * Starts the processes of a bench, each with a directory of its own (`dataDir`) in the system's temporary directory. `stop`
 * ends the last one first, and removes the directories.
 */
export async function createParts(profileDir: string | undefined) {
  const directory = await mkdtemp(join(tmpdir(), 'stoa-bench-'))
  const stops: (() => Promise<void>)[] = []
  return {
    directory,
    stops,
    async start(file: string, setup: Record<string, string> = {}): Promise<Part> {
      const dataDir = await mkdtemp(join(directory, 'part-'))
      const part = await startPart({ file, setup: { dataDir, ...setup }, profileDir })
      stops.push(part.stop)
      return part
    },
    async stop() {
      for (const each of stops.toReversed()) await each()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

function conversation(child: ChildProcess, file: string) {
  const open = new Map<number, (answer: Answer) => void>()
  let last = 0
  child.on('message', (answer: Answer) => {
    open.get(answer.id)?.(answer)
    open.delete(answer.id)
  })
  child.once('exit', (code) => {
    for (const settle of open.values()) settle({ id: 0, error: `ended with status ${code}` })
    open.clear()
  })
  return <T>(kind: Question['kind'], value: unknown): Promise<T> =>
    new Promise((resolve, reject) => {
      const id = ++last
      const fail = (reason: string) => reject(new Error(`${file}: ${reason}`))
      const timer = setTimeout(() => fail(`no answer to ${kind} within ${ANSWER_MS_MAX} ms`), ANSWER_MS_MAX)
      open.set(id, (answer) => {
        clearTimeout(timer)
        if (answer.error === undefined) resolve(answer.value as T)
        else fail(answer.error)
      })
      if (!child.connected) return fail('it is not running')
      child.send({ id, kind, value } satisfies Question)
    })
}

export type PartWork = {
  ready: Record<string, string>
  answer?(question: unknown): Promise<unknown>
  stop?(): Promise<void>
}

/**
 * The side of the part: each part's file calls this function. The process ends with `stop`, or when the bench ends for
 * any reason.
 */
export function servePart(start: (setup: Record<string, string>) => Promise<PartWork>): void {
  let work: PartWork | undefined
  process.once('disconnect', () => process.exit(1))
  process.on('message', async ({ id, kind, value }: Question) => {
    const tell = (answer: Omit<Answer, 'id'>) => process.send?.({ id, ...answer } satisfies Answer)
    try {
      if (kind === 'setup') {
        work = await start(value as Record<string, string>)
        tell({ value: work.ready })
      } else if (kind === 'cpu') {
        const { user, system } = process.cpuUsage()
        tell({ value: (user + system) / 1000 })
      } else if (kind === 'ask') {
        tell({ value: await work?.answer?.(value) })
      } else {
        await work?.stop?.()
        process.removeAllListeners('disconnect')
        tell({})
        setImmediate(() => process.exit(0))
      }
    } catch (error) {
      tell({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    }
  })
}
