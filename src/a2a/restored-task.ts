import { type Message, Role, type Task, TaskState } from '@a2a-js/sdk'
import { paymentKeys as keys, X402_EXTENSION } from '../schema/a2a.ts'
import { A2A_CALLER, ownerOfCaller, STRANGER } from '../schema/caller.ts'
import type { EndedTask, WaitingTask } from '../store/sent-messages.ts'
import type { TaskRecord } from '../store/task-records.ts'
import { paid, paymentFailed } from './payment-messages.ts'
import { resultArtifact, statusOf, type TaskIds, textPart } from './task-events.ts'

export function restoreTask(record: TaskRecord | undefined): Task | undefined {
  if (record === undefined) return undefined
  const { taskId, input, output, error, payment } = record
  if (isKeptBack(record)) return restoreUnpaid(record)
  const ids = idsOf(record)
  const metadata =
    payment === undefined
      ? undefined
      : output === undefined
        ? paymentFailed('EXECUTION_FAILED', error ?? 'the agent failed', payment.network)
        : paid(payment)
  const state = output === undefined ? TaskState.TASK_STATE_FAILED : TaskState.TASK_STATE_COMPLETED
  return {
    id: taskId,
    contextId: ids.contextId,
    status: statusOf(state, ids, record.endedAt, {
      ...(error !== undefined && { text: error }),
      ...(metadata !== undefined && { metadata, extensions: [X402_EXTENSION] }),
    }),
    artifacts: output === undefined ? [] : [resultArtifact(output)],
    history: [firstMessage(ids, input)],
    metadata: undefined,
  }
}

function idsOf({ taskId, callerId }: TaskRecord): TaskIds {
  return { taskId, contextId: callerId.slice(A2A_CALLER.length).replace(/^.*\//, '') }
}

/** A stranger gets its result when the payment has settled (T6). */
function isKeptBack({ output, payment, callerId }: TaskRecord): boolean {
  const isOpen = payment !== undefined && output !== undefined && payment.txHash === undefined
  return isOpen && ownerOfCaller(callerId) === STRANGER.tokenId
}

/** A task whose result is there, and whose payment has not settled yet, or never will. */
function restoreUnpaid(record: TaskRecord): Task {
  const ids = idsOf(record)
  if (record.payment?.state !== 'unsettled') return restoreWorking(ids.taskId, ids)
  const { network } = record.payment
  const text = 'the payment could not be settled: the result is kept back, nothing was charged'
  const metadata = paymentFailed('SETTLEMENT_FAILED', text, network)
  const status = statusOf(TaskState.TASK_STATE_FAILED, ids, record.endedAt, {
    ...{ text, metadata, extensions: [X402_EXTENSION] },
  })
  return {
    ...ids,
    id: ids.taskId,
    status,
    artifacts: [],
    history: [firstMessage(ids, record.input)],
    metadata: undefined,
  }
}

/** Restores a failed or canceled task when the store holds only its end. */
export function restoreEnded(taskId: string, { contextId, state, text, at }: EndedTask): Task {
  const ids = { taskId, contextId }
  const ended = { failed: TaskState.TASK_STATE_FAILED, canceled: TaskState.TASK_STATE_CANCELED }[state]
  const status = statusOf(ended, ids, at, { text })
  return { id: taskId, contextId, status, artifacts: [], history: [], metadata: undefined }
}

/** A task on which another process of this node works: only that process has its texts. */
export function restoreWorking(taskId: string, { contextId }: { contextId: string }): Task {
  const status = { state: TaskState.TASK_STATE_WORKING, message: undefined, timestamp: undefined }
  return { id: taskId, contextId, status, artifacts: [], history: [], metadata: undefined }
}

/** Restores a task that needs its caller. It has the text of its first message, so that the caller can go on with it. */
export function restoreWaiting(taskId: string, { contextId, input, text, metadata, at }: WaitingTask): Task {
  const ids = { taskId, contextId }
  const said = { text, ...(metadata !== undefined && { metadata, extensions: [X402_EXTENSION] }) }
  return {
    id: taskId,
    contextId,
    status: statusOf(TaskState.TASK_STATE_INPUT_REQUIRED, ids, at, said),
    artifacts: [],
    history: [firstMessage(ids, input)],
    metadata: undefined,
  }
}

function firstMessage(ids: TaskIds, input: string): Message {
  const beside = { metadata: undefined, extensions: [], referenceTaskIds: [] }
  return { ...ids, messageId: ids.taskId, role: Role.ROLE_USER, parts: [textPart(input)], ...beside }
}

/** Adds the transaction that settled the payment after the result was delivered, or the result that was kept back until then. */
export async function withReceipt(task: Task, find: () => Promise<TaskRecord | undefined>): Promise<Task> {
  const metadata = task.status?.message?.metadata
  const isFailed = task.status?.state === TaskState.TASK_STATE_FAILED
  if (isFailed && metadata?.[keys.error] === 'SETTLEMENT_FAILED') return restoreTask(await find()) ?? task
  const isPending =
    task.status?.state === TaskState.TASK_STATE_COMPLETED && metadata?.[keys.status] === 'payment-verified'
  if (!isPending) return task
  const payment = (await find())?.payment
  if (payment?.txHash !== undefined) Object.assign(metadata, paid(payment))
  return task
}
