import { randomUUID } from 'node:crypto'
import type { AgentCard, SendMessageRequest, StreamResponse, Task } from '@a2a-js/sdk'
import { ContentTypeNotSupportedError, RequestMalformedError, UnsupportedOperationError } from '@a2a-js/sdk/errors'
import {
  type A2ARequestHandler,
  type AgentExecutor,
  DefaultRequestHandler,
  type ServerCallContext,
} from '@a2a-js/sdk/server'
import { STRANGER } from '../schema/caller.ts'
import { TASK_BYTES_MAX } from '../schema/limits.ts'
import { isUnguessable } from './call-context.ts'
import { elsewhereOf } from './elsewhere.ts'
import { BEGUN_KEY, textOf } from './executor.ts'
import type { SentMessages } from './sent-messages.ts'
import { SHOW_KEY } from './shown-output.ts'
import { type A2aTasks, callerIn } from './tasks.ts'

/** Characters of an id that a caller chooses. */
const ID_LENGTH_MAX = 128
const PARTS_MAX = 256
/** Characters of metadata and extensions. A payment has less than 2,000. */
const BESIDE_LENGTH_MAX = 64 * 1024
/** Bytes of text in an answer to a payment request. */
const ANSWER_BYTES_MAX = 64 * 1024

type HandlerDeps = {
  tasks: A2aTasks
  executor: AgentExecutor
  sent: SentMessages
  /** True: the agent is not for sale now. Its callers read and cancel their tasks, and begin nothing. */
  isLeft?: () => boolean
}

/**
 * Wraps the SDK's handler with checks that it lacks: the length of ids, unsupported parts, and a second message to a
 * running task. Such a message would end the first message's event stream. A repeated message is answered with its task
 * (D38).
 */
export function createRequestHandler(agentId: string, card: AgentCard, deps: HandlerDeps): A2ARequestHandler {
  const { tasks, executor, sent, isLeft = () => false } = deps
  const elsewhere = elsewhereOf(agentId, tasks)
  const inner = new DefaultRequestHandler(card, tasks.of(agentId), executor, tasks)

  async function enter(taskId: string, over: () => void, context: ServerCallContext): Promise<() => void> {
    if (taskId === '') return over
    await elsewhere.refuse(taskId, context).catch((error: unknown) => {
      over()
      throw error
    })
    const leave = tasks.enter(taskId)
    if (leave === undefined) {
      over()
      throw new UnsupportedOperationError('this task is at work: wait for its result')
    }
    return () => {
      leave()
      over()
    }
  }

  /** @returns the task of an earlier copy of this message, or the functions to call for a new one */
  async function begin({ message, metadata }: SendMessageRequest, context: ServerCallContext) {
    const { messageId, ...asked } = message!
    const owner = callerIn(context).tokenId
    const name = { agentId, owner, messageId: nameOf(messageId, owner), asked: [asked, metadata] }
    for (let lost: string | undefined; ; ) {
      const sending = await sent.send(name, lost)
      if (sending.kind === 'first' && isLeft()) {
        sending.over()
        throw new UnsupportedOperationError('this agent is not for sale now: nothing was begun, and nothing charged')
      }
      if (sending.kind === 'first') {
        context.state.set(BEGUN_KEY, sending.begun)
        return sending
      }
      const taskId = await sending.task
      if (taskId === undefined) continue
      if (!sending.isStored || (await isKept(taskId, context))) return taskId
      lost = taskId
    }
  }

  /** Returns true if a task can still be answered: its run was not interrupted by the end of the process. */
  async function isKept(id: string, context: ServerCallContext): Promise<boolean> {
    return tasks.running(id) !== undefined || (await tasks.of(agentId).load(id, context)) !== undefined
  }

  async function again(id: string, { configuration }: SendMessageRequest, context: ServerCallContext): Promise<Task> {
    if (configuration?.returnImmediately === true) await tasks.stored(id)
    else {
      await tasks.atRest(id)
      await elsewhere.over(id, context)
    }
    return inner.getTask({ tenant: '', id, historyLength: configuration?.historyLength }, context)
  }

  async function* streamAgain(id: string, params: SendMessageRequest, context: ServerCallContext) {
    await tasks.stored(id)
    // A task that has ended or waits for its caller sends no more events.
    if (await elsewhere.isElsewhere(id, context)) yield* elsewhere.follow(id, context)
    else if (tasks.isAtRest(id)) yield { payload: { $case: 'task' as const, value: await again(id, params, context) } }
    else yield* inner.resubscribe({ tenant: '', id }, context)
  }

  return {
    getAgentCard: () => inner.getAgentCard(),
    getAuthenticatedExtendedAgentCard: (params, context) => inner.getAuthenticatedExtendedAgentCard(params, context),
    async sendMessage(params, context) {
      const checked = check(params)
      const sending = await begin(checked, context)
      if (typeof sending === 'string') return again(sending, checked, context)
      const leave = await enter(checked.message?.taskId ?? '', sending.over, context)
      try {
        return await inner.sendMessage(checked, context)
      } finally {
        leave()
      }
    },
    async *sendMessageStream(
      params: SendMessageRequest,
      context: ServerCallContext,
    ): AsyncGenerator<StreamResponse, void, undefined> {
      const checked = check(params)
      const sending = await begin(checked, context)
      if (typeof sending === 'string') {
        yield* streamAgain(sending, checked, context)
        return
      }
      const leave = await enter(checked.message?.taskId ?? '', sending.over, context)
      context.state.set(SHOW_KEY, true)
      try {
        yield* inner.sendMessageStream(checked, context)
      } finally {
        leave()
      }
    },
    getTask: (params, context) => inner.getTask(params, context),
    listTasks: (params, context) => inner.listTasks(params, context),
    async cancelTask(params, context) {
      return (await elsewhere.cancel(params.id, context)) ?? inner.cancelTask(params, context)
    },
    async *resubscribe(params, context) {
      if (await elsewhere.isElsewhere(params.id, context)) yield* elsewhere.follow(params.id, context)
      else yield* inner.resubscribe(params, context)
    },
    createTaskPushNotificationConfig: (params, context) => inner.createTaskPushNotificationConfig(params, context),
    getTaskPushNotificationConfig: (params, context) => inner.getTaskPushNotificationConfig(params, context),
    listTaskPushNotificationConfigs: (params, context) => inner.listTaskPushNotificationConfigs(params, context),
    deleteTaskPushNotificationConfig: (params, context) => inner.deleteTaskPushNotificationConfig(params, context),
  }
}

/** Strangers without a secret may choose the same id, so only an id that nobody can guess names their message again. */
function nameOf(messageId: string, owner: string | undefined): string {
  return owner !== STRANGER.tokenId || isUnguessable(messageId) ? messageId : randomUUID()
}

/** Checks the request and adapts it for the SDK. @throws RequestMalformedError, ContentTypeNotSupportedError */
function check(params: SendMessageRequest): SendMessageRequest {
  const { message } = params
  if (message === undefined) throw new RequestMalformedError('message is required')
  for (const name of ['messageId', 'contextId', 'taskId'] as const) {
    if (message[name].length > ID_LENGTH_MAX) {
      throw new RequestMalformedError(`message.${name} is longer than ${ID_LENGTH_MAX} characters`)
    }
  }
  const beside = [params.metadata, message.metadata, message.extensions, message.parts.map(({ metadata }) => metadata)]
  if (JSON.stringify(beside).length > BESIDE_LENGTH_MAX) {
    throw new RequestMalformedError(`metadata and extensions have more than ${BESIDE_LENGTH_MAX} characters`)
  }
  if (message.messageId === '') throw new RequestMalformedError('message.messageId is required')
  if (message.parts.length > PARTS_MAX) throw new RequestMalformedError(`a message has at most ${PARTS_MAX} parts`)
  if (message.parts.length === 0) throw new RequestMalformedError('message.parts is empty')
  for (const { content } of message.parts) {
    if (content?.$case === 'raw' || content?.$case === 'url') {
      throw new ContentTypeNotSupportedError('agents of this node read text and data parts, not files')
    }
  }
  const text = textOf(message)
  if (!text.isWellFormed()) throw new RequestMalformedError('the text is not well-formed Unicode (a lone surrogate)')
  const isNew = message.taskId === ''
  if (isNew && text.trim() === '') throw new RequestMalformedError('the message has no text')
  // The text of a payment message is not used, because the task is known. Limit only its size.
  const bytesMax = isNew ? TASK_BYTES_MAX : ANSWER_BYTES_MAX
  if (Buffer.byteLength(text) > bytesMax) throw new RequestMalformedError(`the text is longer than ${bytesMax} bytes`)
  // No agent here reads other tasks, and the SDK would print a line for each unknown task.
  return { ...params, message: { ...message, referenceTaskIds: [] } }
}
