import { CodedError } from '../lib/errors.ts'
import { boundedText } from '../lib/http.ts'
import { parseJson, UNLIMITED } from '../lib/json.ts'
import { redact } from './redact.ts'

/** Limit in bytes. Enough for the logs of one block range; a longer answer comes from a broken or hostile RPC. */
const RESPONSE_BYTES_MAX = 4 * 1024 * 1024
const ADVICE = 'check ETHEREUM_RPC_URL (--rpc-url)'

export class ChainError extends CodedError<'CHAIN_UNAVAILABLE' | 'CHAIN_WRONG'> {
  override name = 'ChainError'
}

/** The RPC answered with an error: a call that reverts, a block range that is too wide, a missing method. */
export class RpcRefusal extends ChainError {
  override name = 'RpcRefusal'
  /** True if a contract refused, false if the RPC itself did. */
  readonly isRevert: boolean
  constructor(message: string, isRevert = false) {
    super('CHAIN_UNAVAILABLE', message)
    this.isRevert = isRevert
  }
}

export interface Rpc {
  /**
   * Sends one JSON-RPC call. The result is untrusted.
   * @throws RpcRefusal if the RPC answers with an error, ChainError `CHAIN_UNAVAILABLE` if it does not answer in time
   * or in JSON-RPC; the signal's reason. No message holds the RPC's URL.
   */
  call(method: string, params: readonly unknown[], signal?: AbortSignal): Promise<unknown>
}

type RpcOptions = { url: string; timeoutMs: number }
type RpcDeps = { fetch: typeof fetch }

export function createRpc(options: RpcOptions, deps: RpcDeps): Rpc {
  const endpoint = parseEndpoint(options.url)
  let lastId = 0

  async function call(method: string, params: readonly unknown[], signal?: AbortSignal): Promise<unknown> {
    signal?.throwIfAborted()
    if (endpoint === undefined) throw unavailable(`the RPC's address is not an http(s) URL: ${ADVICE}`)
    const id = ++lastId
    const limit = AbortSignal.timeout(options.timeoutMs)
    try {
      const response = await deps.fetch(endpoint.href, {
        method: 'POST',
        headers: { ...endpoint.headers, 'content-type': 'application/json', accept: 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id, method, params }),
        redirect: 'manual',
        signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
      })
      const text = await boundedText(response, RESPONSE_BYTES_MAX)
      if (text === undefined) throw unavailable(`the RPC's answer is longer than ${RESPONSE_BYTES_MAX} bytes`)
      return readResult(response.status, text, method, endpoint.url)
    } catch (error) {
      if (error instanceof ChainError) throw error
      signal?.throwIfAborted()
      if (limit.aborted) throw unavailable(`the RPC gave no answer to ${method} within ${options.timeoutMs} ms`)
      // Leave out the cause: its text and fields can hold the URL.
      throw unavailable(`the RPC cannot be reached (${failureOf(error)}): ${ADVICE}`)
    }
  }

  return { call }
}

type Endpoint = { url: URL; href: string; headers: Record<string, string> }

/** Moves credentials from the URL to a header, because fetch refuses them in a URL. */
function parseEndpoint(text: string): Endpoint | undefined {
  const url = URL.parse(text)
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) return undefined
  const bare = new URL(url)
  bare.username = ''
  bare.password = ''
  if (url.username === '' && url.password === '') return { url, href: bare.href, headers: {} }
  const credentials = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`
  return { url, href: bare.href, headers: { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` } }
}

/** Reads the body before the status: providers send JSON-RPC errors with any HTTP status. */
function readResult(status: number, text: string, method: string, url: URL): unknown {
  const answer = parseObject(text)
  if (typeof answer?.error === 'object' && answer.error !== null) {
    const { code, message } = answer.error as { code?: unknown; message?: unknown }
    const reason = redact(typeof message === 'string' ? message : 'no reason given', url)
    if (status === 429 || status >= 500) throw unavailable(`the RPC answers HTTP ${status} to ${method}: ${reason}`)
    throw new RpcRefusal(`the RPC refuses ${method} (${Number(code)}): ${reason}`, code === 3 || /revert/i.test(reason))
  }
  if (status >= 300 && status < 400) throw unavailable(`the RPC redirects: give the address it redirects to, ${ADVICE}`)
  if (status === 429) throw unavailable('the RPC limits our requests (HTTP 429): use an RPC of your own, or wait')
  if (status < 200 || status >= 300) throw unavailable(`the RPC answers HTTP ${status} to ${method}: ${ADVICE}`)
  if (answer === undefined || !Object.hasOwn(answer, 'result')) {
    throw unavailable(`what answers at the RPC's address does not speak JSON-RPC: ${ADVICE}`)
  }
  return answer.result
}

function parseObject(text: string): Record<string, unknown> | undefined {
  // The operator chooses the RPC, and lists of logs may be long.
  const value = parseJson(text, UNLIMITED)
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
}

function failureOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  const code = (cause as { code?: unknown } | null)?.code
  return typeof code === 'string' && /^[A-Z0-9_]{1,40}$/.test(code) ? code : 'connection failed'
}

export function unavailable(message: string): ChainError {
  return new ChainError('CHAIN_UNAVAILABLE', message)
}
