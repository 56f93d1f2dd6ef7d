import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { answerInRoom } from '../lib/answer-room.ts'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { Meters } from '../lib/meters.ts'
import type { Caller } from '../schema/caller.ts'
import { TASK_BYTES_MAX } from '../schema/limits.ts'
import type { Search } from '../search/search.ts'
import { type AnswerForm, chatForm, responsesForm } from './answer-forms.ts'
import { sendStream, sendWhole } from './answers.ts'
import { DoorError, internalError } from './door-error.ts'
import { decode, readBody, refusalOf, sendError, sendJson, unknownPath } from './door-http.ts'
import { DoorLimits, tooMuchUnread } from './door-limits.ts'
import { DoorMeter, type DoorOutcome, outcomeOf } from './door-meter.ts'
import { GivenResults } from './given-results.ts'
import { KnownAgents } from './known-agents.ts'
import { LiveCall } from './live-call.ts'
import { modelList, oneModel } from './models.ts'
import { type DoorRequest, readChat, readResponses } from './request.ts'
import { keysOf } from './request-keys.ts'
import { answeringAgain, answerTo, type ServeDeps, type Served, serve } from './serve.ts'
import { SharedCalls } from './shared-calls.ts'

export type DoorOptions = {
  /** The most that `auto`, `tag:` and a name alone pay for one call unless the request allows more, in atomic units. */
  maxPriceAtomic: bigint
  /** A client that reads nothing of a whole answer for this long loses its connection. Default: 60 s. */
  stalledMs?: number
}

export type DoorDeps = Omit<ServeDeps, 'known' | 'search' | 'isGiven'> & {
  search: Pick<Search, 'page' | 'find'>
  clock: Clock
  logger: Logger
  meters: Pick<Meters, 'count' | 'observe'>
  /** The token whose budget the door spends for clients that have no token of their own. */
  ownToken(): Promise<Caller>
}

export type DoorCall = {
  request: IncomingMessage
  response: ServerResponse
  /** The path without the prefix `/v1`, with its query. */
  path: string
  caller: Caller
  signal: AbortSignal
}

/** `isRefused`: there was no room in memory for the answer. */
type CallInRoom = DoorCall & { isRefused(): boolean }

export type Door = { handle(call: DoorCall): Promise<void>; stop(): void }

/** The same limit as for streams (lib/event-stream.ts), in ms. */
const STALLED_MS = 60_000

/** Agents behind the API that OpenAI's clients speak. */
export function createDoor(options: DoorOptions, deps: DoorDeps): Door {
  const { clock } = deps
  const logger = deps.logger.child({ part: 'openai' })
  const calls = new SharedCalls<Served>(clock, answeringAgain(deps))
  const stopping = new AbortController()
  const meter = new DoorMeter(deps.meters, clock)
  const given = new GivenResults()
  /** Only an execution counts as spent. An answer from an earlier order does not. */
  const metered: ServeDeps = {
    ...deps,
    known: new KnownAgents(deps),
    isGiven: given.has,
    async execute(request) {
      const result = await deps.execute(request)
      meter.bought(result)
      return result
    },
  }
  const limits = new DoorLimits()

  async function handle(call: DoorCall): Promise<void> {
    const { request, response, path, caller } = call
    response.setHeader('x-request-id', randomUUID())
    const { isRefused } = answerInRoom(request, response, {
      take: (bytes) => limits.room(caller.tokenId ?? '', bytes),
      refusal: () => refusalOf(tooMuchUnread()),
    })
    try {
      await answer({ ...call, isRefused }, path.split('?', 1)[0]!.replace(/\/$/, ''))
    } catch (error) {
      if (response.headersSent || response.destroyed) return void response.destroy()
      sendError(response, clientError(error), request)
    }
  }

  async function answer(call: CallInRoom, path: string): Promise<void> {
    const { request, response } = call
    const isPost = request.method === 'POST'
    if (!isPost && path === '/models') return sendJson(response, modelList(metered, clock.now()))
    if (!isPost && path.startsWith('/models/')) {
      return sendJson(response, oneModel(decode(path.slice('/models/'.length)), metered, clock.now()))
    }
    const kind = isPost && Object.hasOwn(kinds, path) ? kinds[path as keyof typeof kinds] : undefined
    if (kind === undefined) throw unknownPath(request.method ?? '', path)
    await meter.measure(() => buy(call, kind))
  }

  async function buy({ request, response, caller, signal, isRefused }: CallInRoom, kind: Kind): Promise<DoorOutcome> {
    const body = await readBody(request)
    const asked = kind.read(body)
    const bytes = Buffer.byteLength(asked.task)
    if (bytes > TASK_BYTES_MAX) {
      const message = `the messages are a task of ${bytes} bytes; the limit is ${TASK_BYTES_MAX}`
      throw new DoorError(message, { status: 400, type: 'invalid_request_error', code: 'context_length_exceeded' })
    }
    using _slot = limits.admit(caller.tokenId ?? '', clock.now())
    return await execute(asked, kind.form, {
      request,
      response,
      caller,
      isRefused,
      signal: AbortSignal.any([signal, stopping.signal]),
    })
  }

  async function execute(asked: DoorRequest, form: AnswerForm, call: Omit<CallInRoom, 'path'>): Promise<DoorOutcome> {
    const { response, signal, isRefused } = call
    const onGiven = (served: Served) => (isRefused() ? undefined : given.note(served))
    const live = new LiveCall()
    const { ended, isFirst, now } = await join(asked, call, live)
    if (asked.ignored.length > 0) response.setHeader('x-stoa-ignored', asked.ignored.join(', '))
    const answering = { request: asked, form, now }
    if (asked.stream) await sendStream(answering, response, { live, ended, signal, onGiven, clientError })
    const ending = await Promise.race([hasLeft(signal), ended.then(() => 'answered' as const, outcomeOf)])
    const outcome = asked.stream && isRefused() ? 'limited' : ending
    if ((!isFirst() || live.isTaken) && outcome !== 'left') meter.joined()
    if (asked.stream) return outcome
    const served = await ended
    sendWhole(answering, response, served)
    response.setTimeout(options.stalledMs ?? STALLED_MS, () => response.destroy())
    if (outcome === 'answered') onGiven(served)
    return isRefused() ? 'limited' : outcome
  }

  /** Begins the call, or joins the same call of an earlier request. `isFirst`: this request began it. */
  async function join(asked: DoorRequest, { request, caller, signal }: Omit<CallInRoom, 'path'>, following: LiveCall) {
    const isOperator = caller.scope === 'admin'
    const payer = isOperator ? await deps.ownToken() : caller
    const now = clock.now()
    const { name, keys } = keysOf(asked.digest, payer.tokenId ?? '', request.headers)
    let isFirst = false
    const ended = calls.join(name, signal, async (left) => {
      isFirst = true
      const call = { request: asked, caller: payer, isOperator, autoMaxPrice: options.maxPriceAtomic, keys, now }
      return serve({ ...call, following, signal: left }, metered)
    })
    // `execute` handles the error when it answers. Until then the error must not count as unhandled.
    ended.catch(() => undefined)
    return { ended, isFirst: () => isFirst, now }
  }

  /** The error as a client may see it. A fault of the node is logged, and its details are hidden. */
  function clientError(error: unknown): DoorError {
    const answered = answerTo(error)
    if (answered !== undefined) return answered
    const correlationId = randomUUID()
    logger.error({ err: error, correlation_id: correlationId }, 'a call through the OpenAI door failed inside the node')
    return internalError(correlationId)
  }

  return {
    handle,
    stop: () => stopping.abort(new DoorError('the node is stopping', stoppingError)),
  }
}

/** Resolves when the client has left. */
function hasLeft(signal: AbortSignal): Promise<'left'> {
  const { promise, resolve } = Promise.withResolvers<'left'>()
  if (signal.aborted) resolve('left')
  else signal.addEventListener('abort', () => resolve('left'), { once: true })
  return promise
}

const kinds = {
  '/chat/completions': { read: readChat, form: chatForm },
  '/responses': { read: readResponses, form: responsesForm },
} as const
type Kind = (typeof kinds)[keyof typeof kinds]

const stoppingError = { status: 503, type: 'server_error', code: 'node_unavailable', headers: { 'retry-after': '5' } }
