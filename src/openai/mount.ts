import type { IncomingMessage, ServerResponse } from 'node:http'
import { CodedError } from '../lib/errors.ts'
import type { Caller } from '../schema/caller.ts'
import type { Door } from './door.ts'
import { DoorError, doorErrorOf } from './door-error.ts'

type Call = { request: IncomingMessage; response: ServerResponse; rest: string; caller: Caller; signal: AbortSignal }

/** Clients mistype their base URL both ways, so two paths answer without `/v1` too. `/models` is another operation. */
const prefixes = { '/v1': '', '/chat': '/chat', '/responses': '/responses' } as const

/**
 * Mounts the OpenAI door with the access rules of an execution (D16). Its code loads with the first request.
 *
 * @param load undefined: the door is off, and says how to open it
 */
export function openAiMounts(load: (() => Promise<Door>) | undefined) {
  let loading: Promise<Door> | undefined
  async function handle(prefix: string, call: Call): Promise<void> {
    if (load === undefined) return sendOff(call.response)
    loading ??= load().catch((error: unknown) => {
      loading = undefined
      throw error
    })
    await (await loading).handle({ ...call, path: prefix + call.rest })
  }
  const mounts = Object.entries(prefixes).map(([path, prefix]) => ({
    path,
    methods: ['GET', 'POST'],
    offered: (rest: string) => [(prefix + rest).startsWith('/models') ? 'GET' : 'POST'],
    requestHeaders: ['openai-beta', 'openai-organization', 'openai-project', 'x-stainless-retry-count'],
    access: () => 'private' as const,
    scope: (method: string) => (method === 'GET' ? ('read' as const) : ('execute' as const)),
    // The SDKs send a key always, and refuse an empty one.
    ignoresKeys: true,
    errorBody: ({ code, detail }: { code: string; detail: string }) =>
      doorErrorOf(new CodedError(code, detail), { isSigned: false, orderId: undefined })!,
    handle: (call: Call) => handle(prefix, call),
  }))
  return {
    mounts,
    async stop(): Promise<void> {
      ;(await loading?.catch(() => undefined))?.stop()
    },
  }
}

function sendOff(response: ServerResponse): void {
  const message = 'the OpenAI door is off. Set openai_door: true in config.yaml and start the node again'
  const { status, body } = new DoorError(message, { status: 404, type: 'invalid_request_error', code: 'door_off' })
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
