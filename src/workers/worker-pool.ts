import { AgentError, cannotRun, runCanceled } from '../agents/runtime.ts'
import type { AgentWorkers, WorkerTask } from '../agents/worker-agent.ts'
import type { Logger } from '../lib/logger.ts'
import { WorkError, WorkerGone } from './work-error.ts'
import type { WorkerLink } from './worker-link.ts'

/** Workers connected to this process. */
const LINKS_MAX = 64
/** Runs that wait for a slot of a worker. The run slots of the node allow far fewer. */
const WAITING_MAX = 1024
/** A run whose worker was lost is handed to another worker once. */
const ATTEMPTS_MAX = 2
/** How long a run that waits outlives the last worker for it: a worker that lost its connection is back by then. */
const AWAY_MS_MAX = 5_000

type Waiting = {
  agent: string
  resolve(link: WorkerLink): void
  reject(error: unknown): void
  /** Runs while no worker can run the agent. */
  timer?: NodeJS.Timeout | undefined
}

type PoolDeps = { logger: Logger; awayMs?: number | undefined }

/** The workers that are connected to this process, and the runs that wait for them. */
export class WorkerPool implements AgentWorkers {
  readonly #deps: PoolDeps
  readonly #links = new Map<string, WorkerLink>()
  /** In order of arrival. */
  #waiting: Waiting[] = []
  readonly #listeners = new Set<() => void>()

  constructor(deps: PoolDeps) {
    this.#deps = deps
  }

  links(): WorkerLink[] {
    return [...this.#links.values()]
  }

  link(id: string): WorkerLink | undefined {
    return this.#links.get(id)
  }

  /** Calls the listener after a worker has come or gone. */
  onChange(listener: () => void): void {
    this.#listeners.add(listener)
  }

  /** Takes a worker in. An older connection of the same worker ends. @throws WorkError WORKERS_TOO_MANY */
  join(link: WorkerLink): void {
    const { id } = link.worker
    const older = this.#links.get(id)
    if (older === undefined && this.#links.size >= LINKS_MAX) {
      throw new WorkError('WORKERS_TOO_MANY', `at most ${LINKS_MAX} workers connect to one process of the seller`)
    }
    this.#links.set(id, link)
    older?.cut(new WorkError('REPLACED', 'the same worker has connected once more'))
    this.#changed()
  }

  leave(link: WorkerLink): void {
    if (this.#links.get(link.worker.id) !== link) return
    this.#links.delete(link.worker.id)
    this.#changed()
  }

  canRun(agentName: string): boolean {
    return this.#links.values().some(({ worker }) => worker.agents.has(agentName))
  }

  /** How many runs of an agent its workers take at the same time. Undefined: none can run it, so nobody waits. */
  room(agentName: string): number | undefined {
    const able = this.links().filter(({ worker }) => worker.agents.has(agentName))
    return able.length === 0 ? undefined : able.reduce((sum, { worker }) => sum + worker.runsMax, 0)
  }

  readsHistory(agentName: string): boolean {
    return this.#links.values().some(({ worker }) => worker.agents.get(agentName)?.readsHistory === true)
  }

  async run(agentName: string, task: WorkerTask): Promise<string> {
    if (!this.canRun(agentName)) throw nobody()
    let isShown = false
    const show = task.onOutput
    const onOutput = (text: string) => {
      isShown = true
      show?.(text)
    }
    const watched = show === undefined ? task : { ...task, onOutput }
    for (let attempt = 1; ; attempt += 1) {
      const link = await this.#held(agentName, task.signal)
      try {
        return await link.run(agentName, watched)
      } catch (error) {
        if (!(error instanceof WorkerGone)) throw error
        const fields = { agent_name: agentName, peer_id: link.worker.peerId, count: attempt, reason: error.message }
        this.#deps.logger.warn(fields, 'a worker was lost while it ran a task')
        // What a buyer has seen must not begin anew.
        if (isShown || attempt >= ATTEMPTS_MAX) throw lost(error)
      }
    }
  }

  /** Hands free slots to the runs that wait, in order of arrival. */
  assign(): void {
    this.#waiting = this.#waiting.filter((waiting) => {
      const link = this.#idlest(waiting.agent)
      if (link === undefined) return true
      link.take()
      clearTimeout(waiting.timer)
      waiting.resolve(link)
      return false
    })
  }

  /** Waits for a slot of a worker that was not revoked. Another process may have revoked one that is connected here. */
  async #held(agent: string, signal: AbortSignal): Promise<WorkerLink> {
    for (;;) {
      const link = await this.#free(agent, signal)
      let isHeld = false
      try {
        isHeld = await link.isHeld()
      } catch (error) {
        this.#deps.logger.warn({ err: error, agent_name: agent }, 'the ledger could not be asked about a worker')
        throw cannotRun('the seller cannot read its ledger now; try again later')
      } finally {
        if (!isHeld) link.give()
      }
      if (isHeld) return link
      this.leave(link)
    }
  }

  /** Waits for a slot of a worker that can run the agent. */
  async #free(agent: string, signal: AbortSignal): Promise<WorkerLink> {
    if (signal.aborted) throw runCanceled()
    if (this.#waiting.length >= WAITING_MAX) throw new AgentError('AGENT_FAILED', 'too many tasks wait for this agent')
    const { promise, resolve, reject } = Promise.withResolvers<WorkerLink>()
    const waiting: Waiting = { agent, resolve, reject }
    this.#waiting.push(waiting)
    const onAbort = () => this.#giveUp(waiting, runCanceled())
    signal.addEventListener('abort', onAbort, { once: true })
    this.assign()
    this.#watch(waiting)
    try {
      return await promise
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** The worker with a free slot that runs the fewest tasks. */
  #idlest(agent: string): WorkerLink | undefined {
    const able = this.links().filter(({ hasSlot, worker }) => hasSlot && worker.agents.has(agent))
    return able.toSorted((a, b) => a.running - b.running)[0]
  }

  #changed(): void {
    this.assign()
    for (const waiting of this.#waiting) this.#watch(waiting)
    for (const listener of this.#listeners) listener()
  }

  /** Limits how long a run waits while nobody can run its agent. */
  #watch(waiting: Waiting): void {
    if (!this.#waiting.includes(waiting)) return
    if (this.canRun(waiting.agent)) {
      clearTimeout(waiting.timer)
      waiting.timer = undefined
    } else {
      const { awayMs = AWAY_MS_MAX } = this.#deps
      waiting.timer ??= setTimeout(() => this.#giveUp(waiting, nobody()), awayMs)
    }
  }

  #giveUp(waiting: Waiting, error: AgentError): void {
    if (!this.#waiting.includes(waiting)) return
    this.#waiting = this.#waiting.filter((one) => one !== waiting)
    clearTimeout(waiting.timer)
    waiting.reject(error)
  }
}

function nobody(): AgentError {
  return cannotRun('no machine that can run this agent is connected to its seller now; try again later')
}

function lost(cause: unknown): AgentError {
  return new AgentError('AGENT_FAILED', 'the machine that ran this task was lost before the end', { cause })
}
