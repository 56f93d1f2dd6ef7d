import { randomUUID } from 'node:crypto'
import { type Message, Role, type Task, TaskState } from '@a2a-js/sdk'
import type { Client } from '@a2a-js/sdk/client'
import * as z from 'zod'
import { BoundedMap } from '../lib/bounded-map.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { doubledMs } from '../lib/retry.ts'
import { pause } from '../lib/wait.ts'
import { HOPS_KEY, paymentKeys as keys, STOA_EXTENSION } from '../schema/a2a.ts'
import { usdc } from '../schema/amount.ts'
import { type A2aConnection, connect } from './a2a-connection.ts'
import { type AgentPurchases, HOPS_MAX } from './agent-purchase.ts'
import { ResponseTooLargeError } from './guarded-fetch.ts'
import { type AgentCall, AgentError, cannotRun, type OnOutput, outputTooLarge, runCanceled } from './runtime.ts'

export type A2aAgentOptions = {
  name: string
  /** URL of the agent or of its card. Checked: http(s), without credentials. */
  url: string
  token: string | undefined
  outputBytesMax: number
  /** The most that one run may pay, in atomic units. Undefined: pay nothing. */
  maxPrice: bigint | undefined
}

/** Pauses between two polls of a background task. */
const LOOKS = { firstMs: 250, mostMs: 5_000 }
/** How long the other agent may take to accept a cancellation. */
const CANCEL_TIMEOUT_MS = 2_000
/** Callers whose A2A conversation is remembered. Beyond it the oldest is dropped. */
const CONTEXTS_MAX = 1_000
/** A longer name of a conversation is not remembered: the other agent chooses it, and each caller has one. */
const CONTEXT_LENGTH_MAX = 1_000
const REASON_LENGTH_MAX = 300

export type A2aAgentDeps = {
  fetch: typeof fetch
  logger: Logger
  agentPurchases?: AgentPurchases | undefined
}

export interface A2aAgent {
  /** @throws AgentError */
  run(call: AgentCall): Promise<string>
}

/**
 * An agent that forwards its tasks to another agent, over A2A 0.3 or 1.0. The token is sent only to the origin of the
 * operator's URL; other addresses in a card or a redirect are not asked (T12). Each caller has its own conversation
 * with the other agent (T9).
 */
export function openA2aAgent(options: A2aAgentOptions, deps: A2aAgentDeps): A2aAgent {
  const { outputBytesMax } = options
  const logger = deps.logger.child({ agent_name: options.name })
  const contexts = new BoundedMap<string, string>(CONTEXTS_MAX)
  let connecting: Promise<A2aConnection> | undefined

  const connected = () => {
    connecting ??= connect(options, deps.fetch).catch((error: unknown) => {
      connecting = undefined
      throw error
    })
    return connecting
  }

  async function run(call: AgentCall): Promise<string> {
    const { input, callerId, signal, onOutput, origin } = call
    const hops = origin?.hops ?? 0
    if (hops >= HOPS_MAX) throw tooManyHops(hops)
    // Check first what this run bought before. That works even if the other agent is gone.
    const before = await deps.agentPurchases?.resume(options.name, call)
    if (before !== undefined) return before
    const remote = await connected()
    if (remote.paid !== undefined) return buy(remote.paid, call, options, deps)
    const contextId = contexts.get(callerId) ?? ''
    const task = { input, contextId, hops: hops + 1, outputBytesMax, signal, onOutput }
    const { text, context } = await work(remote, task)
    if (context === '' || context.length > CONTEXT_LENGTH_MAX) contexts.delete(callerId)
    else contexts.set(callerId, context)
    return text
  }

  return {
    run: (call) =>
      run(call).catch((error: unknown) => {
        // Forget what is cached about the other agent, because the cache may be the cause.
        contexts.delete(call.callerId)
        connecting = undefined
        if (call.signal.aborted) throw runCanceled()
        throw explain(error, outputBytesMax, logger)
      }),
  }
}

/** Buys a run of a paid agent on the market, with its signed listing, the budget and an order. */
function buy(
  paid: NonNullable<A2aConnection['paid']>,
  call: AgentCall,
  { name, maxPrice }: A2aAgentOptions,
  { agentPurchases }: A2aAgentDeps,
): Promise<string> {
  if (maxPrice === undefined) {
    const message = 'the agent behind this one is paid: its seller must set `max_price`'
    const fix = 'write max_price, the most that one run may pay in USDC, into the entry of this agent (agents.yaml)'
    throw cannotRun(message, { cause: new Error(fix) })
  }
  if (paid.named === undefined) throw wantsMoney(`its card has no ${STOA_EXTENSION}, which names its listing`)
  if (agentPurchases === undefined) throw wantsMoney('nothing is bought here')
  return agentPurchases.buy({ name, named: paid.named, maxPrice, call })
}

type AgentAnswer = { text: string; context: string }

/** Sends the task, follows its stream if there is one, and polls until it ends. A broken stream loses nothing. */
async function work(
  { client, serviceParameters }: A2aConnection,
  asked: Pick<AgentCall, 'input' | 'signal'> & {
    contextId: string
    hops: number
    outputBytesMax: number
    onOutput: OnOutput | undefined
  },
): Promise<AgentAnswer> {
  const { outputBytesMax: bytesMax, signal, onOutput } = asked
  let id: string | undefined
  try {
    let message: Message | undefined
    try {
      for await (const { payload } of client.sendMessageStream(request(asked), {
        signal,
        serviceParameters,
      })) {
        if (payload?.$case === 'task') id = payload.value.id
        // Show only partial pieces. The complete result is read when the task has ended.
        if (payload?.$case === 'artifactUpdate' && !payload.value.lastChunk) {
          onOutput?.(textOf(payload.value.artifact === undefined ? [] : [payload.value.artifact]))
        }
        if (payload?.$case === 'message') message = payload.value
      }
    } catch (error) {
      if (id === undefined || signal.aborted) throw error
    }
    if (message !== undefined) return given(textOf([message]), message.contextId, bytesMax)
    if (id === undefined) throw new Error('the agent answered with neither a task nor a message')
    const task = await ended(client, id, signal)
    const price = askedPrice(task)
    if (price !== undefined) {
      await cancel(client, id)
      throw wantsMoney(`it asks for ${price}, which its card does not say`)
    }
    return given(resultOf(task), task.contextId, bytesMax)
  } catch (error) {
    if (signal.aborted && id !== undefined) await cancel(client, id)
    throw error
  }
}

async function ended(client: Client, id: string, signal: AbortSignal): Promise<Task> {
  for (let look = 1; ; look++) {
    const task = await client.getTask({ tenant: '', id }, { signal })
    if (!isUnderWay(task)) return task
    await pause(doubledMs(look, LOOKS), signal)
    signal.throwIfAborted()
  }
}

function given(text: string, context: string, bytesMax: number): AgentAnswer {
  if (Buffer.byteLength(text) > bytesMax) throw outputTooLarge(bytesMax)
  return { text, context }
}

/** @throws AgentError for a task that failed */
function resultOf(task: Task): string {
  const state = task.status?.state
  if (state === TaskState.TASK_STATE_COMPLETED) {
    const { message } = task.status ?? {}
    return textOf(task.artifacts) || textOf(message === undefined ? [] : [message])
  }
  const how = (TaskState[state ?? 0] ?? 'UNKNOWN').replace('TASK_STATE_', '').toLowerCase().replace('_', ' ')
  throw new AgentError('AGENT_FAILED', `the agent behind this one ended its task as ${how}`)
}

const Asked = z.object({
  accepts: z.array(z.object({ amount: z.string().regex(/^\d{1,30}$/), network: z.string().max(64) })).min(1),
})

function askedPrice({ status }: Task): string | undefined {
  const metadata = status?.message?.metadata
  if (status?.state !== TaskState.TASK_STATE_INPUT_REQUIRED || metadata?.[keys.status] !== 'payment-required')
    return undefined
  const asked = Asked.safeParse(metadata[keys.required])
  if (!asked.success) return 'an amount that cannot be read'
  const { amount, network } = asked.data.accepts[0]!
  return `${usdc(BigInt(amount))} on ${network}`
}

/** Nothing is signed for a task's own price. Purchases go through the market, which has the signed listing. */
function wantsMoney(reason: string): AgentError {
  const how =
    'nothing was signed: an `a2a` agent pays only an agent of the market whose card says so; name such a one, or a free one'
  return cannotRun('the agent behind this one wants to be paid itself', { cause: new Error(`${reason}; ${how}`) })
}

function tooManyHops(hops: number): AgentError {
  const reason = `${hops} agents ask one another before this one, the limit is ${HOPS_MAX}: is there a loop?`
  return cannotRun('too many agents ask one another for this task', { cause: new Error(reason) })
}

async function cancel(client: Client, id: string): Promise<void> {
  const signal = AbortSignal.timeout(CANCEL_TIMEOUT_MS)
  await client.cancelTask({ tenant: '', id, metadata: undefined }, { signal }).catch(() => {})
}

function request({ input, contextId, hops }: { input: string; contextId: string; hops: number }) {
  const part = {
    content: { $case: 'text' as const, value: input },
    mediaType: 'text/plain',
    filename: '',
    metadata: undefined,
  }
  const message: Message = {
    messageId: randomUUID(),
    contextId,
    taskId: '',
    role: Role.ROLE_USER,
    parts: [part],
    metadata: { [HOPS_KEY]: hops },
    extensions: [],
    referenceTaskIds: [],
  }
  // Without streaming: return the id at once, so that the task can be canceled.
  const configuration = { returnImmediately: true, acceptedOutputModes: [], taskPushNotificationConfig: undefined }
  return { tenant: '', message, configuration, metadata: undefined }
}

function textOf(holders: readonly Pick<Message, 'parts'>[]): string {
  const parts = holders.flatMap(({ parts }) => parts)
  const texts = parts.flatMap(({ content }) => {
    if (content?.$case === 'text' || content?.$case === 'url') return [content.value]
    return content?.$case === 'data' ? [JSON.stringify(content.value)] : []
  })
  return texts.join('\n')
}

function isUnderWay({ status }: Task): boolean {
  const state = status?.state
  return state === TaskState.TASK_STATE_SUBMITTED || state === TaskState.TASK_STATE_WORKING
}

/** Returns an error for the buyer. The other agent's words go only to the log. */
function explain(error: unknown, bytesMax: number, logger: Logger): AgentError {
  const reason = reasonOf(error instanceof AgentError ? (error.cause ?? error) : error)
  logger.warn({ reason: reason.replace(/\s+/g, ' ').slice(0, REASON_LENGTH_MAX) }, 'the A2A agent did not do its task')
  if (error instanceof AgentError) return new AgentError(error.code, error.message)
  if (isTooLarge(error)) return outputTooLarge(bytesMax)
  return new AgentError('AGENT_FAILED', 'the agent behind this one gave no result')
}

function isTooLarge(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (cause instanceof ResponseTooLargeError) return true
  return false
}
