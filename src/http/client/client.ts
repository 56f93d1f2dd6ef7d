import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import { CodedError, reasonOf } from '../../lib/errors.ts'
import { parseJson, UNLIMITED } from '../../lib/json.ts'
import {
  ExecutionResult,
  Health,
  Listings,
  NodeStatus,
  type PeerStatus,
  PeerStatuses,
  Problem,
  RegisterAgent,
  WalletBalance,
} from '../../schema/api.ts'
import { Doors, DoorTests } from '../../schema/doors.ts'
import { Fleet } from '../../schema/fleet.ts'
import { EXECUTION_SECONDS_MAX } from '../../schema/limits.ts'
import { Listing } from '../../schema/listing.ts'
import { RegisteredAgent } from '../../schema/own-agent.ts'
import { ApiError } from './api-error.ts'
import { type ChannelCalls, channelCalls } from './channels.ts'
import { type MarketCalls, marketCalls } from './market.ts'
import { type OperatorCalls, operatorCalls } from './operator.ts'
import { type BuyUrlCall, bodyOf, type ExecuteCall, type Options, type Requests, urlBodyOf } from './requests.ts'
import { type SourceCalls, sourceCalls } from './sources.ts'
import { type OpenStream, type StreamCalls, streamCalls } from './stream.ts'
import { type WebhookCalls, webhookCalls } from './webhooks.ts'
import { type WorkerCalls, workerCalls } from './workers.ts'

/** Time limit of an answer. An execution may take as long as the slowest agent and its settlement. */
const ANSWER_TIMEOUT_MS = 30_000
const EXECUTION_TIMEOUT_MS = (EXECUTION_SECONDS_MAX + 60) * 1000

/** Requests to these paths may spend money. They carry a key, so that they are done once (D38). */
const SPENDING = /^\/(?:execute|orders|orders\/[^/]+\/execute|workflows|wallet\/send)$/

/**
 * The API of a running node as functions. They throw ApiError for a problem that the node answers, and CodedError
 * API_UNREACHABLE, API_CONNECTION_LOST, API_TIMEOUT or API_ANSWER_INVALID. An aborted signal throws its reason.
 */
export type ApiClient = MarketCalls &
  OperatorCalls &
  ChannelCalls &
  StreamCalls &
  WebhookCalls &
  SourceCalls &
  WorkerCalls & {
    health(options?: Options): Promise<Health>
    /** All known agents: local and discovered. */
    agents(options?: Options): Promise<Listing[]>
    localAgents(options?: Options): Promise<Listing[]>
    discoveredAgents(options?: Options): Promise<Listing[]>
    agent(id: string, options?: Options): Promise<Listing>
    registerAgent(definition: RegisterAgent, options?: Options): Promise<RegisteredAgent>
    execute(call: ExecuteCall, options?: Options): Promise<ExecutionResult>
    buyUrl(call: BuyUrlCall, options?: Options): Promise<ExecutionResult>
    status(options?: Options): Promise<NodeStatus>
    peers(options?: Options): Promise<PeerStatus[]>
    fleet(options?: Options): Promise<Fleet>
    doors(options?: Options): Promise<Doors>
    /** Asks the addresses for strangers, as a client would. */
    testDoors(options?: Options): Promise<DoorTests>
    balance(options?: Options): Promise<WalletBalance>
  }

export type ApiClientOptions = {
  /** For example `http://127.0.0.1:8424`. */
  baseUrl: string
  token?: string | undefined
}

/** The built-in `fetch` gives up after 300 s. For agents that run longer, pass `createPatientFetch()`. */
export function createApiClient(options: ApiClientOptions, deps: { fetch: typeof fetch }): ApiClient {
  const base = options.baseUrl.replace(/\/+$/, '')
  const authorization = options.token === undefined ? {} : { authorization: `Bearer ${options.token}` }

  /** Repeats a request with a key once if its connection was lost. The node still does it once. */
  async function send(path: string, call: Options = {}, body?: object, method?: string) {
    if (body === undefined || !SPENDING.test(path)) return sendOnce(path, call, body, method)
    // Replace an undefined key with a new one. Without a key, the repeated request would buy again.
    const keyed = { ...call, idempotencyKey: call.idempotencyKey ?? randomUUID() }
    return sendOnce(path, keyed, body, method).catch((error: unknown) => {
      if ((error as { code?: unknown }).code !== 'API_CONNECTION_LOST') throw error
      return sendOnce(path, keyed, body, method)
    })
  }

  function fetchNode(path: string, { method, signal, headers, body }: Parameters<OpenStream>[1] & { method?: string }) {
    return deps.fetch(base + path, {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: { ...authorization, ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      // A node never redirects. A server that does must not get the token.
      redirect: 'error',
      ...(signal && { signal }),
    })
  }

  async function sendOnce(path: string, call: Options, body?: object, method?: string) {
    const { signal, timeoutMs = ANSWER_TIMEOUT_MS, idempotencyKey } = call
    const timeout = AbortSignal.timeout(timeoutMs)
    try {
      const answer = await fetchNode(path, {
        ...(method !== undefined && { method }),
        ...(body !== undefined && { body }),
        ...(idempotencyKey !== undefined && { headers: { 'idempotency-key': idempotencyKey } }),
        signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      })
      return { status: answer.status, text: await answer.text(), link: answer.headers.get('link') }
    } catch (error) {
      if (error instanceof CodedError) throw error
      signal?.throwIfAborted()
      if (!timeout.aborted) throw connectionError(base, error)
      throw new CodedError('API_TIMEOUT', `no answer from ${base} in ${timeoutMs / 1000} s`, { cause: error })
    }
  }

  const openStream: OpenStream = async (path, options) => {
    const headers = { accept: 'text/event-stream', ...options.headers }
    const answer = await fetchNode(path, { ...options, headers }).catch((error: unknown) => {
      options.signal?.throwIfAborted()
      throw error instanceof CodedError ? error : connectionError(base, error)
    })
    if (answer.ok && answer.body !== null) return answer.body
    return readAnswer(base, z.never(), answer.status, await answer.text())
  }

  const request: Requests['request'] = async (path, response, ...more) => {
    const { status, text } = await send(path, ...more)
    return readAnswer(base, response, status, text)
  }

  const linked: Requests['linked'] = async (path, query, response, call) => {
    const { status, text, link } = await send(path + queryText(query), call)
    return { body: readAnswer(base, response, status, text), next: nextIn(link) }
  }

  return {
    ...marketCalls({ request, linked }),
    ...operatorCalls({ request, linked }),
    ...channelCalls({ request, linked }),
    ...streamCalls(openStream),
    ...webhookCalls({ request, linked }),
    ...sourceCalls({ request, linked }),
    ...workerCalls({ request, linked }),
    health: (call) => request('/health', Health, call),
    agents: (call) => request('/agents', Listings, call),
    localAgents: (call) => request('/agents/local', Listings, call),
    discoveredAgents: (call) => request('/agents/discover', Listings, call),
    agent: (id, call) => request(`/agents/${encodeURIComponent(id)}`, Listing, call),
    registerAgent: (definition, call) => request('/agents', RegisteredAgent, call, z.encode(RegisterAgent, definition)),
    execute({ idempotencyKey = randomUUID(), ...task }, call) {
      const keyed = { ...call, idempotencyKey: call?.idempotencyKey ?? idempotencyKey }
      return request('/execute', ExecutionResult, { timeoutMs: EXECUTION_TIMEOUT_MS, ...keyed }, bodyOf(task))
    },
    buyUrl({ idempotencyKey = randomUUID(), ...wanted }, call) {
      const keyed = { timeoutMs: EXECUTION_TIMEOUT_MS, ...call, idempotencyKey: call?.idempotencyKey ?? idempotencyKey }
      return request('/execute', ExecutionResult, keyed, urlBodyOf(wanted))
    },
    status: (call) => request('/status', NodeStatus, call),
    peers: (call) => request('/peers', PeerStatuses, call),
    fleet: (call) => request('/fleet', Fleet, call),
    doors: (call) => request('/doors', Doors, call),
    testDoors: (call) => request('/doors/test', DoorTests, call, {}),
    balance: (call) => request('/wallet/balance', WalletBalance, call),
  }
}

function queryText(query: object): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined)
  return given.length === 0 ? '' : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`
}

function nextIn(link: string | null): string | undefined {
  const target = /<\?([^>]*)>; *rel="next"/.exec(link ?? '')?.[1]
  return target === undefined ? undefined : (new URLSearchParams(target).get('cursor') ?? undefined)
}

function readAnswer<T extends z.ZodType>(base: string, schema: T, status: number, text: string): z.output<T> {
  const json = parseJson(text, UNLIMITED)
  const ok = status >= 200 && status < 300
  const parsed = z.safeDecode(ok ? schema : Problem, json as never)
  if (!parsed.success) {
    const what = `${base} answered ${status} with something else than a node of this version does`
    throw new CodedError('API_ANSWER_INVALID', `${what}: is another program listening there?`, { cause: parsed.error })
  }
  if (!ok) throw new ApiError(parsed.data as Problem)
  return parsed.data as z.output<T>
}

/** `fetch` throws "fetch failed". Its cause holds the reason. */
function connectionError(base: string, error: unknown): CodedError {
  const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code = inner instanceof Error && 'code' in inner ? String(inner.code) : ''
  const reason = reasonOf(inner) || code
  // The connection was open, so the node may have done the request. The caller must not repeat it without a check.
  if (/^(ECONNRESET|EPIPE|UND_ERR_SOCKET)$/.test(code)) {
    const lost = `the connection to ${base} was lost before the answer (${reason}). The request may have been done`
    return new CodedError('API_CONNECTION_LOST', lost, { cause: error })
  }
  // The text of OpenSSL is two lines of source positions.
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER') {
    const plain = `what listens at ${base} does not speak TLS: write http:// instead of https://, or name the proxy`
    return new CodedError('API_UNREACHABLE', plain, { cause: error })
  }
  const fix = `no node answers at ${base} (${reason}). Start a node with: stoa start`
  return new CodedError('API_UNREACHABLE', fix, { cause: error })
}
