import { type ChildProcess, fork } from 'node:child_process'

/** One process of a bench: started with a set-up, asked for things, stopped. */
export type Part = {
  /** What it said once it was ready. */
  readonly ready: Record<string, string>
  /** CPU time it has used so far, in ms. */
  cpuMs(): Promise<number>
  ask<T>(question: unknown): Promise<T>
  stop(): Promise<void>
}

export type StartOptions = { file: string; setup?: Record<string, string>; profileDir?: string | undefined }

type Question = { id: number; kind: 'setup' | 'cpu' | 'ask' | 'stop'; value: unknown }
type Answer = { id: number; value?: unknown; error?: string }

const ANSWER_MS_MAX = 300_000

/** Starts a file of this folder in a process of its own, under the same Node. @throws Error as the part fails */
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

/** The other side: what a part's file runs. It ends with `stop`, or with the bench, however that ends. */
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
