import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

type Part = { text?: string }

/** The request fields of all three APIs that tests read. */
export type LlmBody = {
  model?: string
  messages?: { role: string; content: string | Part[] }[]
  system?: unknown
  systemInstruction?: unknown
  contents?: { role: string; parts: Part[] }[]
}

/** A request as the server received it. */
export type LlmRequest = {
  /** The host that the node called, before {@link FakeLlm.fetch} redirected the request here. */
  host: string
  path: string
  headers: IncomingMessage['headers']
  body: LlmBody
}

/** How the server handles a request. */
export type LlmBehavior =
  | { kind: 'answer'; text: string; finish?: 'stop' | 'length' | 'content_filter' }
  /** Answers with all the messages of the request. */
  | { kind: 'repeat' }
  | { kind: 'status'; status: number; body?: unknown; headers?: Record<string, string> }
  | { kind: 'raw'; body: string; contentType?: string }
  /** Accepts the request and never answers. */
  | { kind: 'hang' }
  /** Starts an answer and never ends it. */
  | { kind: 'stall' }
  | { kind: 'drop' }

export interface FakeLlm extends AsyncDisposable {
  readonly url: string
  readonly requests: LlmRequest[]
  /** Number of open requests. */
  pending(): number
  /** One behavior for all requests, or one for each in turn. The last behavior repeats. */
  behave(...behaviors: LlmBehavior[]): void
  /** Sends every request to a model provider here instead, over a real connection. */
  fetch: typeof fetch
}

/** A model provider on loopback that speaks OpenAI chat completions, Anthropic messages and Google generateContent. */
export async function startFakeLlm(): Promise<FakeLlm> {
  const requests: LlmRequest[] = []
  let queue: LlmBehavior[] = [{ kind: 'answer', text: 'an answer' }]
  let pending = 0
  const server = createServer(async (request, response) => {
    pending++
    response.once('close', () => pending--)
    const body = await readBody(request)
    if (body === undefined) return
    const path = request.url ?? ''
    requests.push({ host: String(request.headers['x-meant-host'] ?? ''), path, headers: request.headers, body })
    act(response, path, queue.length > 1 ? queue.shift()! : queue[0]!, body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    requests,
    pending: () => pending,
    behave(...behaviors) {
      queue = behaviors
    },
    fetch: (input, init) => {
      const meant = new URL(input instanceof Request ? input.url : input)
      const headers = new Headers(init?.headers)
      headers.set('x-meant-host', meant.host)
      return fetch(`${url}${meant.pathname}${meant.search}`, { ...init, headers })
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function readBody(request: IncomingMessage): Promise<LlmBody | undefined> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of request) chunks.push(chunk as Buffer)
  } catch {
    return undefined
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8') || '{}')
}

function act(response: ServerResponse, path: string, behavior: LlmBehavior, body: LlmBody): void {
  switch (behavior.kind) {
    case 'repeat':
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(answer(path, JSON.stringify(body.messages ?? body.contents), 'stop')))
      break
    case 'answer':
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(answer(path, behavior.text, behavior.finish ?? 'stop')))
      break
    case 'status':
      response.writeHead(behavior.status, { 'content-type': 'application/json', ...behavior.headers })
      response.end(behavior.body === undefined ? '' : JSON.stringify(behavior.body))
      break
    case 'raw':
      response.setHeader('content-type', behavior.contentType ?? 'application/json')
      response.end(behavior.body)
      break
    case 'stall':
      response.setHeader('content-type', 'application/json')
      response.write('{')
      break
    case 'drop':
      response.destroy()
      break
    case 'hang':
      break
  }
}

function answer(path: string, text: string, finish: 'stop' | 'length' | 'content_filter'): unknown {
  if (path.endsWith('/chat/completions')) {
    return {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1,
      model: 'fake',
      choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: finish }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    }
  }
  if (path.endsWith('/messages')) {
    return {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'fake',
      content: text === '' ? [] : [{ type: 'text', text }],
      stop_reason: { stop: 'end_turn', length: 'max_tokens', content_filter: 'refusal' }[finish],
      stop_sequence: null,
      usage: { input_tokens: 1, output_tokens: 1 },
    }
  }
  if (path.includes(':generateContent')) {
    const finishReason = { stop: 'STOP', length: 'MAX_TOKENS', content_filter: 'SAFETY' }[finish]
    return {
      candidates: [{ content: { role: 'model', parts: [{ text }] }, finishReason, index: 0 }],
      usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
    }
  }
  return { error: `the fake does not know ${path}` }
}
