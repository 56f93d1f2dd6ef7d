import {
  Client,
  type PriorDiscovery,
  StreamableHTTPClientTransport,
  type Transport,
} from '@modelcontextprotocol/client'
import { stoaVersion } from '../../lib/version.ts'
import { within } from '../../lib/wait.ts'
import { RUN_SECONDS_MAX } from '../../schema/limits.ts'
import { mcpFetch } from '../mcp-fetch.ts'
import { mcpProcess } from '../mcp-process.ts'

/** How long a server may take to start and to say what it speaks. */
const CONNECT_TIMEOUT_MS = 20_000
/** How long a server may take to end its session. */
const CLOSE_TIMEOUT_MS = 2_000
/** Pages of a list of tools. */
const LIST_PAGES_MAX = 16
const CALL_TIMEOUT_MS = RUN_SECONDS_MAX * 1000

export type McpServerAccess = {
  command: readonly string[] | undefined
  url: string | undefined
  token: string | undefined
  /** The largest result. An answer may be several times as large, with its envelope. */
  outputBytesMax: number
}
export type McpClientDeps = { fetch: typeof fetch; readEnv(name: string): string | undefined }

/** A connection for one run, so that nothing of one caller remains for the next (T9). */
interface McpConnection extends AsyncDisposable {
  readonly client: Client
  /** How the server was met, which makes the next connection faster. */
  readonly met: PriorDiscovery | undefined
  /** Aborts with the run, and when the server has sent more than a server may. */
  readonly signal: AbortSignal
}

/** The limits of one request. The run itself has a limit of its own. */
export function callOptions(signal: AbortSignal) {
  return { signal, timeout: CALL_TIMEOUT_MS, maxTotalTimeout: CALL_TIMEOUT_MS }
}

/**
 * Connects to an MCP server as a client that offers it nothing: no sampling, no questions, no files. Follows no redirect,
 * because the token would go along (T12). @throws the error of the connection, or of the signal
 */
export async function connectMcp(
  server: McpServerAccess,
  prior: PriorDiscovery | undefined,
  { fetch, readEnv }: McpClientDeps,
  run: AbortSignal,
): Promise<McpConnection> {
  const cut = new AbortController()
  const guarded = mcpFetch(fetch, server.outputBytesMax, (error) => cut.abort(error))
  const overHttp = server.url === undefined ? undefined : httpTransport(server.url, server.token, guarded)
  const signal = AbortSignal.any([run, cut.signal])
  const transport = overHttp ?? (mcpProcess(server.command!, readEnv) as Transport)
  const client = new Client(
    { name: 'stoa', version: stoaVersion() },
    {
      capabilities: {},
      listMaxPages: LIST_PAGES_MAX,
      inputRequired: { autoFulfill: false },
      // A program that does not know the question of the newer protocol may end, so it is asked in the older one.
      versionNegotiation: { mode: overHttp === undefined ? 'legacy' : 'auto' },
    },
  )
  // The failing request reports the error.
  client.onerror = () => {}
  try {
    await client.connect(transport, { signal, timeout: CONNECT_TIMEOUT_MS, ...(prior !== undefined && { prior }) })
  } catch (error) {
    await client.close().catch(() => {})
    throw cut.signal.aborted ? cut.signal.reason : error
  }
  const discover = client.getDiscoverResult()
  return {
    client,
    signal,
    met: discover === undefined ? { kind: 'legacy' } : { kind: 'modern', discover },
    async [Symbol.asyncDispose]() {
      // Without it, a server with sessions keeps one for each run.
      if (overHttp?.sessionId !== undefined) await within(CLOSE_TIMEOUT_MS, overHttp.terminateSession()).catch(() => {})
      await client.close().catch(() => {})
    },
  }
}

function httpTransport(url: string, token: string | undefined, guarded: typeof globalThis.fetch) {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  return new StreamableHTTPClientTransport(new URL(url), {
    fetch: guarded as never,
    requestInit: { headers, redirect: 'manual' },
  })
}
