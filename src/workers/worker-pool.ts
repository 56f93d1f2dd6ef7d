import { AgentError, cannotRun, NoMachine, runCanceled } from '../agents/runtime.ts'
import type { AgentWorkers, WorkerTask } from '../agents/worker-agent.ts'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { orAborted } from '../lib/wait.ts'
import { Presence } from './presence.ts'
import { WorkError, WorkerGone } from './work-error.ts'
import type { WorkerLink } from './worker-link.ts'
import { WorkerStandings } from './worker-standings.ts'

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
  resolve(held: Held): void
  reject(error: unknown): void
  /** Runs while no worker can run the agent. */
  timer?: NodeJS.Timeout | undefined
}

type PoolDeps = { clock: Clock; logger: Logger; awayMs?: number | undefined }
/** A worker with a slot that was taken for a run of an agent. */
type Held = { link: WorkerLink; end(): void }

/** The workers that are connected to this process, and the runs that wait for them. */
export class WorkerPool implements AgentWorkers {
  readonly #deps: PoolDeps
  readonly #standings: WorkerStandings
  readonly #presence: Presence
  readonly #links = new Map<string, WorkerLink>()
  /** In order of arrival. */
  #waiting: Waiting[] = []
  readonly #listeners = new Set<() => void>()

  constructor(deps: PoolDeps) {
    this.#deps = deps
    this.#standings = new WorkerStandings(deps.clock)
    this.#presence = new Presence(deps.clock)
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

  isOffered(agentName: string): boolean {
    return this.#presence.isSteady(agentName)
  }

  /** How many runs of an agent its workers take at the same time. Undefined: none can run it, so nobody waits. */
  room(agentName: string): number | undefined {
    const able = this.#able(agentName)
    const roomOf = ({ id, runsMax }: WorkerLink['worker']) => (this.#standings.isOnTrial(id, agentName) ? 1 : runsMax)
    return able.length === 0 ? undefined : able.reduce((sum, { worker }) => sum + roomOf(worker), 0)
  }

  /** The agents of a worker for which it gets no tasks, or one at a time, because they failed. */
  failing({ worker }: WorkerLink): string[] {
    return [...worker.agents.keys()].filter((agent) => this.#standings.isOnTrial(worker.id, agent))
  }

  readsHistory(agentName: string): boolean {
    return this.#links.values().some(({ worker }) => worker.agents.get(agentName)?.readsHistory === true)
  }

  async run(agentName: string, task: WorkerTask): Promise<string> {
    if (!this.canRun(agentName)) throw new NoMachine()
    let isShown = false
    const show = task.onOutput
    const onOutput = (text: string) => {
      isShown = true
      show?.(text)
    }
    const watched = show === undefined ? task : { ...task, onOutput }
    for (let attempt = 1; ; attempt += 1) {
      const { link, end } = await this.#held(agentName, task.signal)
      try {
        const output = await link.run(agentName, watched)
        this.#standings.succeeded(link.worker.id, agentName)
        return output
      } catch (error) {
        this.#noteFailure(link, { agentName, task, error })
        if (!(error instanceof WorkerGone)) throw error
        const fields = { agent_name: agentName, peer_id: link.worker.peerId, count: attempt, reason: error.message }
        this.#deps.logger.warn(fields, 'a worker was lost while it ran a task')
        // What a buyer has seen must not begin anew.
        if (isShown || attempt >= ATTEMPTS_MAX) throw lost(error)
      } finally {
        end()
      }
    }
  }

  /** Hands free slots to the runs that wait, in order of arrival. */
  assign(): void {
    this.#waiting = this.#waiting.filter((waiting) => {
      const link = this.#idlest(waiting.agent)
      if (link === undefined) return true
      link.take()
      const end = this.#standings.begin(link.worker.id, waiting.agent)
      clearTimeout(waiting.timer)
      waiting.resolve({ link, end })
      return false
    })
  }

  /** Waits for a slot of a worker that was not revoked. Another process may have revoked one that is connected here. */
  async #held(agent: string, signal: AbortSignal): Promise<Held> {
    for (;;) {
      const held = await this.#free(agent, signal)
      const { link } = held
      let isHeld = false
      try {
        isHeld = await orAborted(link.isHeld(), signal)
      } catch (error) {
        if (signal.aborted) throw runCanceled()
        this.#deps.logger.warn({ err: error, agent_name: agent }, 'the ledger could not be asked about a worker')
        throw cannotRun('the seller cannot read its ledger now; try again later')
      } finally {
        if (!isHeld) {
          held.end()
          link.give()
        }
      }
      if (isHeld) return held
      this.leave(link)
    }
  }

  /** Waits for a slot of a worker that can run the agent. */
  async #free(agent: string, signal: AbortSignal): Promise<Held> {
    if (signal.aborted) throw runCanceled()
    if (this.#waiting.length >= WAITING_MAX) throw new AgentError('AGENT_FAILED', 'too many tasks wait for this agent')
    const { promise, resolve, reject } = Promise.withResolvers<Held>()
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

  /** Of the workers with a free slot, the one that runs the fewest tasks. Those that failed a moment ago come last. */
  #idlest(agent: string): WorkerLink | undefined {
    const free = this.#able(agent).filter(({ hasSlot, worker }) => hasSlot && this.#standings.mayTake(worker.id, agent))
    const doubt = ({ worker }: WorkerLink) => Number(this.#standings.isDoubtful(worker.id, agent))
    return free.toSorted((a, b) => doubt(a) - doubt(b) || a.running - b.running)[0]
  }

  /** The workers that can run an agent. One that was set aside counts only if all were. */
  #able(agent: string): WorkerLink[] {
    const able = this.links().filter(({ worker }) => worker.agents.has(agent))
    const sound = able.filter(({ worker }) => !this.#standings.isAside(worker.id, agent))
    return sound.length === 0 ? able : sound
  }

  #noteFailure(link: WorkerLink, { agentName, task, error }: { agentName: string; task: WorkerTask; error: unknown }) {
    const { reason } = task.signal
    const isTimeout = reason instanceof AgentError && reason.code === 'AGENT_TIMEOUT'
    // Who cancels says nothing about the worker.
    if (task.signal.aborted && !isTimeout) return
    const { id, name, peerId } = link.worker
    const ms = this.#standings.failed(id, agentName, error instanceof WorkerGone ? link : undefined)
    if (ms === undefined) return
    const fields = { agent_name: agentName, peer_id: peerId, ms }
    this.#deps.logger.warn(fields, `worker ${name} fails its tasks: others go first for a while`)
    // A run that waits for this worker goes to another.
    this.assign()
  }

  #changed(): void {
    this.#presence.note(new Set(this.links().flatMap(({ worker }) => [...worker.agents.keys()])))
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
      waiting.timer ??= setTimeout(() => this.#giveUp(waiting, new NoMachine()), awayMs)
    }
  }

  #giveUp(waiting: Waiting, error: AgentError): void {
    if (!this.#waiting.includes(waiting)) return
    this.#waiting = this.#waiting.filter((one) => one !== waiting)
    clearTimeout(waiting.timer)
    waiting.reject(error)
  }
}

function lost(cause: unknown): AgentError {
  return new AgentError('AGENT_FAILED', 'the machine that ran this task was lost before the end', { cause })
}
