import { setImmediate as turn } from 'node:timers/promises'
import { halfRandom } from '../../lib/retry.ts'
import { pause } from '../../lib/wait.ts'
import { nothing, type Query } from '../query.ts'
import { ConnectionBroken, StoreError } from '../store-error.ts'
import { away, isBlocked, isConflict, isStalePlan, storeError } from './errors.ts'
import { type GroupOutcome, type Result, runJobs } from './run-jobs.ts'
import { ROLLBACK } from './sent.ts'
import type { PostgresSettings } from './settings.ts'
import type { Line } from './writing-line.ts'

/** A change that waits for its commit. */
type WaitingChange = {
  readonly query: Query<unknown>
  readonly resolve: (value: unknown) => void
  readonly reject: (reason: unknown) => void
  /** By the clock that does not jump. */
  readonly since: number
  isDone: boolean
  /** The connection was lost while it was committed. */
  isInDoubt: boolean
}

type WriterDeps = { settings: PostgresSettings; line: Line; renewMs: number }

/**
 * How long a change that nobody waits for looks for a group to join: as long as some groups take. On its own it would keep
 * a far database busy when the next group is due, which somebody waits for.
 */
const LATER = { leastMs: 10, mostMs: 100, groups: 5 }
const GROUP_MAX = 200
const GROUP_BYTES_MAX = 8 * 1024 * 1024
const WAITING_MAX = 20_000
const CONFLICTS_MAX = 10
const CONFLICT_MS = 50
const CULPRITS_MAX = 3
/** How often a group may lose its connection. What it asks for may be what ends the server. */
const LOSSES_MAX = 5

/** The changes of a process, in groups: one connection, one transaction after the other. */
export class Writer {
  readonly #deps: WriterDeps
  readonly #renewal: NodeJS.Timeout
  #waiting: WaitingChange[] = []
  #urgent = 0
  #working: Promise<void> | undefined
  #later: NodeJS.Timeout | undefined
  #isClosed = false
  #isRenewed = false
  /** How long the last group took. */
  #groupMs = 0

  constructor(deps: WriterDeps) {
    this.#deps = deps
    this.#renewal = setInterval(() => this.#renew(), deps.renewMs)
    this.#renewal.unref()
  }

  commit<T>(change: Query<T>): Promise<T> {
    const promise = this.#enqueue(change)
    this.#urgent += 1
    this.#work()
    return promise
  }

  commitLater<T>(change: Query<T>): Promise<T> {
    const promise = this.#enqueue(change)
    if (this.#working === undefined) this.#workLater()
    return promise
  }

  /** Commits what waits, and lets the next process in. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#renewal)
    this.#work()
    await this.#working
    await this.#deps.line.close()
  }

  #enqueue<T>(query: Query<T>): Promise<T> {
    const { settings } = this.#deps
    if (this.#isClosed) return Promise.reject(new StoreError('STORE_AWAY', `${settings.name} is closed`))
    if (this.#waiting.length >= WAITING_MAX) {
      return Promise.reject(new StoreError('STORE_AWAY', `${settings.name} is too slow: too many changes wait`))
    }
    return new Promise<T>((resolve, reject) => {
      const since = performance.now()
      const settle = resolve as (value: unknown) => void
      this.#waiting.push({ query, resolve: settle, reject, since, isDone: false, isInDoubt: false })
    })
  }

  #workLater(): void {
    const ms = Math.min(LATER.mostMs, Math.max(LATER.leastMs, LATER.groups * this.#groupMs))
    this.#later ??= setTimeout(() => this.#work(), ms)
  }

  #work(): void {
    clearTimeout(this.#later)
    this.#later = undefined
    this.#working ??= this.#groups().finally(() => {
      this.#working = undefined
      if (this.#urgent > 0) this.#work()
      else if (this.#waiting.length > 0) this.#workLater()
    })
  }

  async #groups(): Promise<void> {
    do {
      // What is asked for in the same turn of the event loop, and what follows a commit at once, joins.
      await turn()
      const jobs = this.#take()
      this.#isRenewed = true
      // A mistake of this code must not leave anybody waiting.
      if (jobs.length > 0) await this.#settle(jobs).catch((error) => jobs.map((job) => refuse(job, error)))
    } while (this.#urgent > 0 || (this.#isClosed && this.#waiting.length > 0))
  }

  #take(): WaitingChange[] {
    let bytes = 0
    let count = 0
    for (const { query } of this.#waiting) {
      bytes += bytesOf(query)
      if (count > 0 && (count >= GROUP_MAX || bytes > GROUP_BYTES_MAX)) break
      count += 1
    }
    const jobs = this.#waiting.splice(0, count)
    this.#urgent = this.#waiting.length
    return jobs.filter(({ isDone }) => !isDone)
  }

  /** Keeps the lease while nothing is written. */
  #renew(): void {
    const isRenewed = this.#isRenewed
    this.#isRenewed = false
    if (isRenewed || this.#working !== undefined || this.#deps.line.lost() !== undefined) return
    // If the database is away, the next group says so.
    this.commit(nothing(undefined)).catch(() => {})
  }

  /** Sees a group through: resolves or rejects each job. */
  async #settle(jobs: readonly WaitingChange[]): Promise<void> {
    const alone: WaitingChange[] = []
    let open = jobs
    let conflicts = 0
    let losses = 0
    while (open.length > 0) {
      const outcome = await this.#tryOnce(open)
      open = open.filter(({ isDone }) => !isDone)
      if (outcome === undefined || outcome.kind === 'committed') continue
      if (outcome.kind !== 'failed') {
        losses += 1
        if (losses < LOSSES_MAX) continue
      }
      const error = outcome.kind === 'fenced' ? new Error('it was not let in') : outcome.error
      const culprit = outcome.kind === 'failed' ? outcome.culprit : undefined
      if (isBlocked(error)) {
        // The process that has the row may stand still. Wait for it as long as for the database.
        this.#deps.line.refuseLate([open, this.#waiting], away(error, this.#deps.settings))
        open = open.filter(({ isDone }) => !isDone)
        await pause(halfRandom(CONFLICT_MS))
        continue
      }
      if (isConflict(error) || isStalePlan(error)) {
        conflicts += 1
        if (conflicts < CONFLICTS_MAX) {
          if (isConflict(error)) await pause(halfRandom(CONFLICT_MS * Math.min(conflicts, 4)))
          continue
        }
      }
      if (open.length === 1) {
        refuse(open[0]!, this.#refusalOf(outcome, error))
        break
      }
      if (culprit === undefined || alone.length >= CULPRITS_MAX) {
        alone.push(...open)
        break
      }
      alone.push(open[culprit]!)
      open = open.filter((_, index) => index !== culprit)
    }
    for (const job of alone) await this.#settle([job])
  }

  #refusalOf(outcome: GroupOutcome, error: unknown): unknown {
    const { settings } = this.#deps
    if (outcome.kind === 'failed' && outcome.isOwn === true) return error
    if (outcome.kind !== 'lost') return storeError(error, settings)
    const { code, message } = away(error, settings)
    return new ConnectionBroken(code, message, { cause: error })
  }

  /** One transaction. Undefined: the connection was lost, or could not be made; what is not done is to be tried again. */
  async #tryOnce(jobs: readonly WaitingChange[]): Promise<GroupOutcome | undefined> {
    const { line } = this.#deps
    const connection = await line.connection([jobs, this.#waiting])
    const open = jobs.filter(({ isDone }) => !isDone)
    if (connection === undefined || open.length === 0) return undefined
    // Some of the group have waited too long: those that have not are taken up by the next round.
    if (open.length < jobs.length) return undefined
    const fence = line.fence()
    const from = performance.now()
    const outcome = await runJobs(
      connection,
      fence.statement,
      jobs.map(({ query }) => query),
    )
    this.#groupMs = performance.now() - from
    if (outcome.kind === 'committed') {
      line.renewed(fence)
      finish(jobs, outcome.results)
    } else if (outcome.kind === 'failed') {
      await connection.send(isBlocked(outcome.error) ? [ROLLBACK, line.renewal()] : [ROLLBACK])
    } else if (outcome.kind === 'fenced') line.drop()
    else if (outcome.isCommitSent) await this.#clearDoubt(jobs, fence.no, outcome)
    return outcome
  }

  /** Finds out whether a group was committed whose commit nobody has confirmed. */
  async #clearDoubt(
    jobs: readonly WaitingChange[],
    no: number,
    { results, error }: Extract<GroupOutcome, { kind: 'lost' }>,
  ): Promise<void> {
    const { line, settings } = this.#deps
    for (const job of jobs) job.isInDoubt = true
    await line.connection([jobs, this.#waiting])
    const open = jobs.filter(({ isDone }) => !isDone)
    if (open.length === 0) return
    if (line.committed() < no) {
      for (const job of open) job.isInDoubt = false
      return
    }
    if (results !== undefined) return finish(jobs, results)
    const what = `the connection to ${settings.name} was lost while a change was committed`
    const fix = 'it is written, but what it answered is not known: look what is there before you ask again'
    for (const job of open) refuse(job, new StoreError('STORE_IN_DOUBT', `${what}: ${fix}`, { cause: error }))
  }
}

function finish(jobs: readonly WaitingChange[], results: readonly Result[]): void {
  for (const [index, job] of jobs.entries()) {
    const result = results[index]!
    if (job.isDone) continue
    if ('error' in result) refuse(job, result.error)
    else {
      job.isDone = true
      job.resolve(result.value)
    }
  }
}

function refuse(job: WaitingChange, error: unknown): void {
  if (job.isDone) return
  job.isDone = true
  job.reject(error)
}

/** What a change that is known from the start will send. */
function bytesOf({ plain }: Query<unknown>): number {
  let bytes = 0
  for (const { values } of plain ?? []) {
    for (const value of values) if (typeof value === 'string' || value instanceof Uint8Array) bytes += value.length
  }
  return bytes
}
