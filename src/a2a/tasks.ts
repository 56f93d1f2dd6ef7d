import { type ListTasksRequest, type ListTasksResponse, type Task, TaskState } from '@a2a-js/sdk'
import {
  DefaultExecutionEventBus,
  type ExecutionEventBus,
  type ExecutionEventBusManager,
  type ServerCallContext,
  type TaskStore,
} from '@a2a-js/sdk/server'
import { Changes } from '../lib/changes.ts'
import { MarketError } from '../listings/market-error.ts'
import { type Caller, isCallerSeen, isStranger, ownerSeen } from '../schema/caller.ts'
import type { SentMessageStore } from '../store/sent-messages.ts'
import type { TaskRecords } from '../store/task-records.ts'
import { restoreEnded, restoreTask, restoreWaiting, restoreWorking, withReceipt } from './restored-task.ts'
import { pageOf } from './task-list.ts'
import { copyOf, sizeOf, withLatest } from './task-memory.ts'

/** Tasks kept in memory. Beyond it the least recently used is dropped. */
const TASKS_MAX = 2_000
/** Bytes of tasks that do not run. Running tasks are limited by the run slots. */
const BYTES_MAX = 64 * 1024 * 1024
/** A task of at most so many bytes gives way to no long one: few long tasks of one caller would drop those of all others. */
const SHORT_BYTES = BYTES_MAX / TASKS_MAX
/** Tasks of the ledger that a list reads, newest first. Each takes a query or more. */
const LISTED_MAX = 200
/** Longer than any run. */
const REST_MS_MAX = 70 * 60_000

/** `owner`: the token that began the task. Undefined: the operator. */
type Entry = { agentId: string; owner: string | undefined; task: Task; bytes: number }
type TaskMessages = Pick<SentMessageStore, 'end' | 'ended' | 'elsewhere' | 'askCancel' | 'waiting' | 'tasks'>
/** Context key of the request's caller. */
export const CALLER_KEY = 'stoa.caller'
/** A request without a caller may only read. */
export const UNMARKED: Caller = { scope: 'read', tokenId: undefined }

export type RunningTask = {
  controller: AbortController
  canCancel: boolean
  /** Why the task cannot be canceled although its payment has not settled. */
  whyKept?: string
  isCanceled: boolean
  bytes: number
}

/**
 * The A2A tasks of all agents, which callers may read again. Kept in memory up to a limit. The least recently used
 * tasks are dropped. A dropped task, or a task of an earlier process, is restored from the store.
 */
export class A2aTasks implements ExecutionEventBusManager {
  readonly #records: TaskRecords
  readonly #messages: TaskMessages | undefined
  readonly #entries = new Map<string, Entry>()
  readonly #buses = new Map<string, ExecutionEventBus>()
  readonly #running = new Map<string, RunningTask>()
  readonly #entering = new Set<string>()
  #whenIdle: (() => void)[] = []
  readonly #changes = new Changes()
  #bytes = 0

  constructor(deps: { records: TaskRecords; messages?: TaskMessages }) {
    this.#records = deps.records
    this.#messages = deps.messages
  }

  /** One agent's tasks, as the SDK's store. Each belongs to its principal (D48). There are no tenants. */
  of(agentId: string): TaskStore {
    return {
      load: async (id, context) => this.#load(agentId, id, callerIn(context)),
      save: async (task, context) => {
        await this.#noteCanceled(task)
        this.#save(agentId, task, callerIn(context))
      },
      list: async (query, context) => this.#list(agentId, query, callerIn(context)),
    }
  }

  running(taskId: string): RunningTask | undefined {
    return this.#running.get(taskId)
  }

  /** Total bytes of the inputs of running tasks. */
  get runningBytes(): number {
    let bytes = 0
    for (const running of this.#running.values()) bytes += running.bytes
    return bytes
  }

  /**
   * Reserves a task for one message, from the first read of the store until its run begins or the message is refused. A
   * second message meanwhile would end the first one's event stream. @returns the release function; undefined if the
   * task is busy
   */
  enter(taskId: string): (() => void) | undefined {
    if (this.#entering.has(taskId) || this.#running.has(taskId)) return undefined
    this.#entering.add(taskId)
    return () => {
      this.#entering.delete(taskId)
      this.#changes.tell(taskId)
    }
  }

  start(taskId: string, running: RunningTask): void {
    this.#running.set(taskId, running)
  }

  end(taskId: string): void {
    this.#running.delete(taskId)
    this.#evict()
    // `setImmediate`: by then the task's last update is stored.
    setImmediate(() => this.#changes.tell(taskId))
    if (this.#running.size === 0) for (const resolve of this.#whenIdle.splice(0)) resolve()
  }

  /** Resolves when nothing runs. */
  idle(): Promise<void> {
    if (this.#running.size === 0) return Promise.resolve()
    return new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  /** Returns true if the task's run has ended and its outcome is stored. */
  isAtRest(taskId: string): boolean {
    if (this.#running.has(taskId) || this.#entering.has(taskId)) return false
    const state = this.#entries.get(taskId)?.task.status?.state
    return state !== TaskState.TASK_STATE_SUBMITTED && state !== TaskState.TASK_STATE_WORKING
  }

  async atRest(taskId: string): Promise<void> {
    await this.#changes.until(taskId, () => this.isAtRest(taskId), { limitMs: REST_MS_MAX })
  }

  /** Resolves when the task can be read. */
  async stored(taskId: string): Promise<void> {
    const isStored = () => this.#entries.has(taskId) || !this.#running.has(taskId)
    await this.#changes.until(taskId, isStored, { limitMs: REST_MS_MAX })
  }

  /** True if this process knows that the task belongs to another caller. */
  isOthers(agentId: string, taskId: string, caller: Caller): boolean {
    const entry = this.#entries.get(taskId)
    if (entry === undefined) return false
    const seen = ownerSeen(caller)
    return entry.agentId !== agentId || (seen !== undefined && entry.owner !== seen)
  }

  contextOf(taskId: string): string {
    return this.#entries.get(taskId)?.task.contextId ?? ''
  }

  /** Ends the run of a task, which reports its own end after its payment is void. @returns false if it is too late */
  cancel(running: RunningTask): boolean {
    if (!running.canCancel) return false
    running.isCanceled = true
    running.controller.abort(new MarketError('ORDER_CANCELLED', 'canceled by the caller'))
    return true
  }

  /** Asks the other process that works on a task to cancel it. */
  async askCancel(taskId: string): Promise<void> {
    await this.#messages?.askCancel(taskId)
  }

  abortAll(reason: Error): void {
    for (const { controller } of this.#running.values()) controller.abort(reason)
  }

  createOrGetByTaskId(taskId: string): ExecutionEventBus {
    const bus = this.#buses.get(taskId) ?? new DefaultExecutionEventBus()
    this.#buses.set(taskId, bus)
    return bus
  }

  getByTaskId(taskId: string): ExecutionEventBus | undefined {
    return this.#buses.get(taskId)
  }

  cleanupByTaskId(taskId: string): void {
    this.#buses.get(taskId)?.removeAllListeners()
    this.#buses.delete(taskId)
  }

  /** A task on which another process of this node works, as far as its callers may see it. */
  async elsewhere(agentId: string, id: string, caller: Caller): Promise<Task | undefined> {
    if (this.#running.has(id) || !this.#mayMove(this.#entries.get(id))) return undefined
    const begun = await this.#messages?.elsewhere(agentId, id)
    const seen = ownerSeen(caller)
    if (begun === undefined || (seen !== undefined && begun.tokenId !== seen)) return undefined
    // It may have ended meanwhile.
    return restoreTask(await this.#records.find(agentId, id)) ?? restoreWorking(id, begun)
  }

  async #load(agentId: string, id: string, caller: Caller): Promise<Task | undefined> {
    const entry = await this.#here(agentId, id)
    const seen = ownerSeen(caller)
    if (entry === undefined) {
      // A new task, because those that run are not dropped. Its first update must not wait for the ledger.
      if (this.#running.has(id)) return undefined
      const record = await this.#records.find(agentId, id)
      if (record !== undefined) return isCallerSeen(record.callerId, seen) ? restoreTask(record) : undefined
      const ended = await this.#messages?.ended(agentId, id)
      if (ended !== undefined) return seen === undefined || ended.tokenId === seen ? restoreEnded(id, ended) : undefined
      return (await this.elsewhere(agentId, id, caller)) ?? this.#restoreWaiting(agentId, id, seen)
    }
    if (this.isOthers(agentId, id, caller)) return undefined
    const task = copyOf(entry.task)
    return withReceipt(task, () => this.#records.find(agentId, id))
  }

  /** True unless this process alone has the task: another may have begun it, or be answered by its caller. */
  #mayMove(entry: Entry | undefined): boolean {
    return entry === undefined || entry.task.status?.state === TaskState.TASK_STATE_INPUT_REQUIRED
  }

  /** The task as this process knows it. Forgets a task that its caller has continued at another process. */
  async #here(agentId: string, id: string): Promise<Entry | undefined> {
    const entry = this.#entries.get(id)
    if (entry === undefined || this.#running.has(id) || !this.#mayMove(entry)) return entry
    const moved =
      (await this.#messages?.elsewhere(agentId, id)) ??
      (await this.#messages?.ended(agentId, id)) ??
      (await this.#records.find(agentId, id))
    // It may have gone on here meanwhile.
    if (moved === undefined || this.#running.has(id) || this.#entries.get(id) !== entry) return this.#entries.get(id)
    this.#drop(id, entry)
    return undefined
  }

  /** A task that another process asked its caller about goes on at the process that gets the answer. */
  async #restoreWaiting(agentId: string, id: string, seen: string | undefined): Promise<Task | undefined> {
    const waiting = await this.#messages?.waiting(agentId, id)
    if (waiting === undefined || (seen !== undefined && waiting.tokenId !== seen)) return undefined
    const task = restoreWaiting(id, waiting)
    if (!this.#entries.has(id)) this.#save(agentId, task, waiting)
    return task
  }

  /** A task that waited for its caller is canceled by no run, which would note its end. */
  async #noteCanceled({ id, status }: Task): Promise<void> {
    const before = this.#entries.get(id)?.task.status?.state
    if (before !== TaskState.TASK_STATE_INPUT_REQUIRED || this.#running.has(id)) return
    if (status?.state !== TaskState.TASK_STATE_CANCELED) return
    const at = Date.parse(status.timestamp ?? '') || 0
    await this.#messages?.end(id, { state: 'canceled', text: 'canceled by the caller', at })
  }

  #save(agentId: string, task: Task, { tokenId }: Pick<Caller, 'tokenId'>): void {
    const before = this.#entries.get(task.id)
    this.#bytes -= before?.bytes ?? 0
    const owner = before === undefined ? tokenId : before.owner
    const kept = withLatest(task)
    const entry = { agentId, owner, task: copyOf(kept), bytes: sizeOf(kept) }
    this.#bytes += entry.bytes
    this.#entries.delete(task.id)
    this.#entries.set(task.id, entry)
    this.#evict()
    this.#changes.tell(task.id)
  }

  #evict(): void {
    if (this.#entries.size <= TASKS_MAX && this.#bytes <= BYTES_MAX) return
    for (const [id, entry] of this.#entries) {
      const isFull = this.#entries.size > TASKS_MAX
      if (!isFull && this.#bytes <= BYTES_MAX) return
      if ((isFull || entry.bytes > SHORT_BYTES) && !this.#running.has(id)) this.#drop(id, entry)
    }
  }

  #drop(id: string, { bytes }: Entry): void {
    this.#entries.delete(id)
    this.#bytes -= bytes
    this.#buses.get(id)?.finished()
    this.cleanupByTaskId(id)
  }

  /** The tasks in memory, and those in the ledger that other processes began, or this one forgot. Strangers list none. */
  async #list(agentId: string, query: ListTasksRequest, caller: Caller): Promise<ListTasksResponse> {
    if (isStranger(caller)) return pageOf([], query)
    const seen = ownerSeen(caller)
    const stored = (await this.#messages?.tasks(agentId, seen ?? null, LISTED_MAX)) ?? []
    const read = await Promise.all(stored.map((id) => this.#load(agentId, id, caller)))
    const tasks = read.filter((task) => task !== undefined)
    const loaded = new Set(tasks.map(({ id }) => id))
    for (const [id, { task, owner, ...entry }] of this.#entries) {
      if (entry.agentId === agentId && (seen === undefined || owner === seen) && !loaded.has(id)) tasks.push(task)
    }
    return pageOf(tasks, query)
  }
}

export function callerIn({ state }: Partial<ServerCallContext>): Caller {
  return (state?.get(CALLER_KEY) as Caller | undefined) ?? UNMARKED
}
