import { Role, type Task, TaskState } from '@a2a-js/sdk'
import { TaskNotCancelableError } from '@a2a-js/sdk/errors'
import { AgentEvent, type AgentExecutor, type ExecutionEventBus, type RequestContext } from '@a2a-js/sdk/server'
import type { OnOutput } from '../agents/runtime.ts'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { PaymentCheck } from '../protocols/doors/payment-check.ts'
import type { Caller } from '../schema/caller.ts'
import type { SentMessageStore, TaskWait } from '../store/sent-messages.ts'
import { isLedgerAway } from '../store/store-error.ts'
import type { Metadata } from './payment-messages.ts'
import { SHOW_KEY, showOutput } from './shown-output.ts'
import { resultArtifact, statusOf, type TaskIds } from './task-events.ts'
import { type A2aTasks, CALLER_KEY, type RunningTask, UNMARKED } from './tasks.ts'

export type Progress = {
  /** Reports that the task is under way. `metadata` may report an accepted payment. */
  working(metadata?: Metadata): void
}
export type Outcome =
  /** `output`: text, or an object that is sent as JSON. `bytes`: the original if the result is not text. */
  | { kind: 'completed'; output: string | object; bytes?: Buffer; metadata?: Metadata; text?: string }
  | { kind: 'input-required'; text: string; metadata?: Metadata }
  | { kind: 'failed' | 'rejected' | 'canceled'; text: string; metadata?: Metadata }
  /** Nothing was done for now. A task that waits for its caller goes on waiting. */
  | { kind: 'not-begun'; text: string }

/** The handling of one message to a task, until the task ends or needs the caller again. */
export type Turn = {
  ids: TaskIds
  /** The message's id, chosen by its sender. */
  messageId: string
  /** The text of the task: that of its first message. */
  input: string
  metadata: Metadata | undefined
  /** The address of the agent as the caller used it. */
  url: string
  caller: Caller
  signal: AbortSignal
  running: RunningTask
  check?: PaymentCheck | undefined
  /** Set if the caller watches the agent's output. */
  onOutput?: OnOutput
}
/** An outcome as its caller is told it. */
type Said = Exclude<Outcome, { kind: 'not-begun' }>
export type Work = (turn: Turn, progress: Progress) => Promise<Outcome>

/** Total bytes of tasks that run or wait to run. */
const RUNNING_BYTES_MAX = 256 * 1024 * 1024
/** Context key under which the request handler stores the URL that the caller used. */
export const URL_KEY = 'stoa.url'
/** Context key of how a payment is checked. */
export const CHECK_KEY = 'stoa.check'
/** Context key of the function that receives the task's id before the task runs. */
export const BEGUN_KEY = 'stoa.begun'
type Begin = (task: TaskIds) => Promise<boolean>

type ExecutorDeps = {
  clock: Clock
  logger: Logger
  tasks: A2aTasks
  work: Work
  extensions: string[]
  /** Stores how tasks end that leave no exchange. Undefined: the ledger has the outcome. */
  messages?: Pick<SentMessageStore, 'end'> | undefined
  /** Notes that nothing works on a task now. */
  rest(taskId: string, wait?: TaskWait): Promise<void>
}

const states = {
  completed: TaskState.TASK_STATE_COMPLETED,
  'input-required': TaskState.TASK_STATE_INPUT_REQUIRED,
  failed: TaskState.TASK_STATE_FAILED,
  rejected: TaskState.TASK_STATE_REJECTED,
  canceled: TaskState.TASK_STATE_CANCELED,
} as const

/**
 * Makes one kind of work an A2A agent: submitted → working → result → completed. Never throws, because the SDK would
 * print the error and show it to the caller. A run continues after its caller has left, and the caller may return for
 * the task. Only a cancel or the stop of the node ends it.
 */
export function createExecutor(deps: ExecutorDeps): AgentExecutor {
  const { clock, tasks, logger } = deps

  const unstored = (taskId: string) => (error: unknown) =>
    logger.warn({ err: error, correlation_id: taskId }, 'the end of an A2A task could not be stored')
  const noteRest = (taskId: string, wait?: TaskWait) => deps.rest(taskId, wait).catch(unstored(taskId))

  /** Before the caller is told: its next request may go to another process. */
  async function noteEnd({ ids: { taskId }, input }: Turn, outcome: Said): Promise<void> {
    const { messages } = deps
    if (messages === undefined) return noteRest(taskId)
    // The exchange of a completed run is stored.
    if (outcome.kind === 'completed') return
    if (outcome.kind === 'input-required') {
      return noteRest(taskId, { input, text: outcome.text, metadata: outcome.metadata, at: clock.now() })
    }
    if (outcome.kind === 'rejected') return noteRest(taskId)
    const ended = { state: outcome.kind, text: outcome.text, at: clock.now() }
    await messages.end(taskId, ended).catch(unstored(taskId))
  }

  async function execute(request: RequestContext, bus: ExecutionEventBus): Promise<void> {
    const { taskId, contextId, userMessage, task, context } = request
    const ids = { taskId, contextId }
    for (const uri of context.requestedExtensions ?? []) {
      if (deps.extensions.includes(uri)) context.addActivatedExtension(uri)
    }
    const say = (state: TaskState, said: Parameters<typeof statusOf>[3] = {}) => {
      const extensions = said.metadata === undefined ? [] : deps.extensions.slice(0, 1)
      const status = statusOf(state, ids, clock.now(), { ...said, extensions })
      bus.publish(AgentEvent.statusUpdate({ ...ids, status, metadata: undefined }))
    }
    const tell = ({ kind, text, metadata }: Said) =>
      say(states[kind], { ...(text !== undefined && { text }), ...(metadata !== undefined && { metadata }) })
    const input = inputOf(task) ?? textOf(userMessage)
    const running: RunningTask = {
      controller: new AbortController(),
      canCancel: true,
      isCanceled: false,
      bytes: input.length * 2,
    }
    const isFull = tasks.runningBytes + running.bytes > RUNNING_BYTES_MAX
    const shown = context.state.get(SHOW_KEY) === true ? showOutput(ids, bus) : undefined
    tasks.start(taskId, running)
    let isBegun = false
    const begun = context.state.get(BEGUN_KEY) as Begin | undefined
    try {
      bus.publish(AgentEvent.task(task ?? newTask(ids, request, clock.now())))
      if (isFull) return tell(asSaid({ kind: 'not-begun', text: 'the node has too much work' }, task))
      // Stored before the run: the same message after a crash does not run again.
      if ((await begun?.(ids)) === false) return say(states.rejected, { text: 'another process of this node has it' })
      isBegun = true
      const turn: Turn = {
        ids,
        messageId: userMessage.messageId,
        input,
        metadata: userMessage.metadata,
        url: String(context.state.get(URL_KEY) ?? ''),
        caller: (context.state.get(CALLER_KEY) as Caller | undefined) ?? UNMARKED,
        signal: running.controller.signal,
        ...{ running, check: context.state.get(CHECK_KEY) as Turn['check'] },
        ...(shown && { onOutput: shown.onOutput }),
      }
      const progress = { working: (metadata?: Metadata) => say(TaskState.TASK_STATE_WORKING, metadata && { metadata }) }
      const outcome = asSaid(await deps.work(turn, progress), task)
      // Replace output that was shown by a failed run with an empty result.
      const isShown = shown?.end() === true
      if (outcome.kind === 'completed' || isShown) {
        const artifact =
          outcome.kind === 'completed' ? resultArtifact(outcome.output, outcome.bytes) : resultArtifact('')
        bus.publish(
          AgentEvent.artifactUpdate({ ...ids, artifact, append: false, lastChunk: true, metadata: undefined }),
        )
      }
      // A failed run may leave no exchange, so store its end. A run interrupted by the stop of the node may run again.
      const isCutOff = running.controller.signal.aborted && !running.isCanceled
      if (!isCutOff) await noteEnd(turn, outcome)
      tell(outcome)
    } catch (error) {
      if (!isBegun && isLedgerAway(error)) {
        logger.warn({ err: error, correlation_id: taskId }, 'an A2A message came while the ledger is away')
        return tell(asSaid({ kind: 'not-begun', text: 'the ledger of this node is away' }, task))
      }
      logger.error({ err: error, correlation_id: taskId }, 'an A2A task failed inside the node')
      await noteRest(taskId)
      say(states.failed, { text: 'the node failed; its log has the cause' })
    } finally {
      shown?.end()
      tasks.end(taskId)
    }
  }

  return {
    execute,
    async cancelTask(taskId, bus) {
      const running = tasks.running(taskId)
      if (running === undefined) {
        // The task waits for its caller. Nothing runs that could report the end.
        const ids = { taskId, contextId: tasks.contextOf(taskId) }
        const status = statusOf(states.canceled, ids, clock.now())
        bus.publish(AgentEvent.statusUpdate({ ...ids, status, metadata: undefined }))
      } else if (!tasks.cancel(running)) {
        throw new TaskNotCancelableError(running.whyKept ?? 'the task is already paid and settled')
      }
    },
  }
}

/** An outcome as it is said. A task for which nothing was done waits on, if it waits for its caller. */
function asSaid(outcome: Outcome, task: Task | undefined): Said {
  if (outcome.kind !== 'not-begun') return outcome
  const text = `${outcome.text}. Nothing has begun and nothing was charged: send the message again later`
  if (task?.status?.state !== states['input-required']) return { kind: 'rejected', text }
  const { metadata } = task.status.message ?? {}
  return { kind: 'input-required', text, ...(metadata !== undefined && { metadata }) }
}

function newTask(ids: TaskIds, request: RequestContext, now: number): Task {
  return {
    id: ids.taskId,
    contextId: ids.contextId,
    status: statusOf(TaskState.TASK_STATE_SUBMITTED, ids, now),
    artifacts: [],
    history: [request.userMessage],
    metadata: undefined,
  }
}

/** The text of the first message of a task. */
function inputOf(task: Task | undefined): string | undefined {
  const first = task?.history.find(({ role }) => role === Role.ROLE_USER)
  return first && textOf(first)
}

/** The text that an agent receives: text parts as they are, data parts as JSON. */
export function textOf({ parts }: Pick<RequestContext['userMessage'], 'parts'>): string {
  const texts = parts.map(({ content }) => {
    if (content?.$case === 'text') return content.value
    return content?.$case === 'data' ? JSON.stringify(content.value) : ''
  })
  return texts.join('\n')
}
