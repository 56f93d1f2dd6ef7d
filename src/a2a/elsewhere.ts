import { type StreamResponse, type Task, TaskState } from '@a2a-js/sdk'
import { TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError } from '@a2a-js/sdk/errors'
import type { ServerCallContext } from '@a2a-js/sdk/server'
import { doubledMs } from '../lib/retry.ts'
import { pause } from '../lib/wait.ts'
import { type A2aTasks, callerIn } from './tasks.ts'

/** How long the answer to a repeated message waits for another process that works on its task. */
const WAIT_MS = 20_000
/** Longer than any run. */
const FOLLOWED_MS_MAX = 70 * 60_000
const PAUSE = { firstMs: 50, mostMs: 1_000 }
const REASON = 'another process of this node works on this task: ask for it with tasks/get until it has ended'

const STILL_AT_WORK =
  'the process of this node that works on this task was asked to cancel it, and has not: it may be paid and settled already. Ask for it with tasks/get'

/** The tasks of one agent on which other processes of this node work. Only they have the events of a task and can end it. */
export function elsewhereOf(agentId: string, tasks: A2aTasks) {
  async function isElsewhere(id: string, context: ServerCallContext): Promise<boolean> {
    return isWorking(await tasks.elsewhere(agentId, id, callerIn(context)))
  }

  /** Also a task whose run has ended, and whose result waits for its payment. */
  async function isAtWork(id: string, context: ServerCallContext): Promise<boolean> {
    return isWorking(await tasks.of(agentId).load(id, context))
  }

  async function over(id: string, context: ServerCallContext): Promise<void> {
    const deadline = performance.now() + WAIT_MS
    for (let looks = 1; await isAtWork(id, context); looks++) {
      if (performance.now() >= deadline) return
      await pause(doubledMs(looks, PAUSE))
    }
  }

  return {
    isElsewhere,
    /**
     * The task on which another process works, and how it ends. What the agent shows meanwhile is known to that process
     * alone.
     */
    async *follow(id: string, context: ServerCallContext): AsyncGenerator<StreamResponse, void, undefined> {
      const begun = await tasks.of(agentId).load(id, context)
      if (begun === undefined) return
      yield { payload: { $case: 'task', value: begun } }
      const deadline = performance.now() + FOLLOWED_MS_MAX
      for (let looks = 1; await isElsewhere(id, context); looks++) {
        if (performance.now() >= deadline) return
        await pause(doubledMs(looks, PAUSE))
      }
      const task = await tasks.of(agentId).load(id, context)
      // Its process has ended, and left nothing.
      if (task === undefined) return
      const ids = { taskId: id, contextId: task.contextId, metadata: undefined }
      for (const artifact of task.artifacts) {
        const update = { ...ids, artifact, append: false, lastChunk: true }
        yield { payload: { $case: 'artifactUpdate', value: update } }
      }
      yield { payload: { $case: 'statusUpdate', value: { ...ids, status: task.status } } }
    },
    /** Waits until nobody works on a task, or for some time. */
    over,
    /** @throws TaskNotFoundError if the task is another caller's; UnsupportedOperationError if another process works on it */
    async refuse(id: string, context: ServerCallContext): Promise<void> {
      if (tasks.isOthers(agentId, id, callerIn(context))) throw new TaskNotFoundError(`Task not found: ${id}`)
      if (await isElsewhere(id, context)) throw new UnsupportedOperationError(REASON)
    },
    /**
     * Asks the other process that works on a task to cancel it, and waits for the end. @returns the task if it was canceled;
     * undefined if none works on it elsewhere. @throws TaskNotCancelableError if it still works, or had ended in another way
     */
    async cancel(id: string, context: ServerCallContext): Promise<Task | undefined> {
      if (!(await isElsewhere(id, context))) return undefined
      await tasks.askCancel(id)
      await over(id, context)
      const task = await tasks.of(agentId).load(id, context)
      if (task?.status?.state === TaskState.TASK_STATE_CANCELED) return task
      if (await isElsewhere(id, context)) throw new TaskNotCancelableError(STILL_AT_WORK)
      throw new TaskNotCancelableError(
        'the task ended before it could be canceled, or waits for its caller: ask for it with tasks/get',
      )
    },
  }
}

function isWorking(task: Task | undefined): boolean {
  return task?.status?.state === TaskState.TASK_STATE_WORKING
}
