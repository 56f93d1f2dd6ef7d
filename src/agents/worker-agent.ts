import { type AgentCall, type AgentRuntime, cannotRun, type Lack } from './runtime.ts'

/** A task for a worker, with the limits of its agent. */
export type WorkerTask = Pick<AgentCall, 'input' | 'callerId' | 'history' | 'signal' | 'onOutput'> & {
  timeoutSeconds: number
  outputBytesMax: number
}

/** The machines elsewhere that run agents of this node. */
export interface AgentWorkers {
  canRun(agentName: string): boolean
  /** True if the agent may be on the market: a worker can run it, and its workers do not come and go all the time. */
  isOffered(agentName: string): boolean
  /** True if a worker that can run the agent reads earlier exchanges. */
  readsHistory(agentName: string): boolean
  /** @throws AgentError */
  run(agentName: string, task: WorkerTask): Promise<string>
}

/** What the listing shows as the model of such an agent. */
export const WORKER_MODEL = 'worker'

/** Where no worker can join, such as in a command that only inspects agents. */
const nobody: AgentWorkers = {
  canRun: () => false,
  isOffered: () => false,
  readsHistory: () => false,
  async run() {
    throw cannotRun('this agent runs on workers, and none can join here')
  },
}

const NOBODY =
  'no worker that can run it is connected: `stoa worker list` shows who is, `stoa worker invite` makes a token for another machine'

const UNSTEADY =
  'its workers come and go: it is listed again when one of them has stayed for a minute; look at the log of the worker'

/** An agent that runs on other machines. It can run while a worker is connected that can run it. */
export function workerRuntime(
  { name, timeoutMs, outputBytesMax }: { name: string; timeoutMs: number; outputBytesMax: number },
  workers: AgentWorkers = nobody,
): AgentRuntime {
  return {
    // Not what the worker runs: workers may differ.
    model: WORKER_MODEL,
    get lacks(): Lack | undefined {
      return workers.isOffered(name) ? undefined : 'worker'
    },
    get notice(): string | undefined {
      if (workers.isOffered(name)) return undefined
      return workers.canRun(name) ? UNSTEADY : NOBODY
    },
    get readsHistory(): boolean {
      return workers.readsHistory(name)
    },
    run: ({ input, callerId, history, signal, onOutput }) =>
      workers.run(name, {
        ...{ input, callerId, history, signal, outputBytesMax },
        timeoutSeconds: Math.ceil(timeoutMs / 1000),
        ...(onOutput && { onOutput }),
      }),
  }
}
