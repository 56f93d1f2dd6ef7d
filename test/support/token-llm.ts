import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'

type Usage = { prompt_tokens: number; completion_tokens: number }
type Asked = {
  messages: { content: string }[]
  stream?: boolean
  stream_options?: { include_usage?: boolean }
}

export interface TokenLlm extends AsyncDisposable {
  /** Base URL of its API. */
  readonly url: string
  /** What it has counted, one entry for each answer. */
  readonly usages: Usage[]
}

/**
 * A model server on loopback that speaks OpenAI's chat completions and counts tokens: each word is one. It writes as many
 * words as the last message says (`write 300 words`), and fails if it says `fail`.
 */
export async function startTokenLlm(): Promise<TokenLlm> {
  const usages: Usage[] = []
  const server = createServer(async (request, response) => {
    const { messages, stream, stream_options: options } = await read(request)
    const last = messages.at(-1)!.content
    if (last.includes('fail')) return void response.writeHead(400, { 'content-type': 'application/json' }).end('{}')
    const words = Array.from({ length: Number(/write (\d+) words/.exec(last)?.[1] ?? 1) }, (_, at) => `w${at}`)
    const prompt = messages.reduce((sum, { content }) => sum + content.split(/\s+/).length, 0)
    const usage = { prompt_tokens: prompt, completion_tokens: words.length }
    usages.push(usage)
    const head = { id: 'chatcmpl-1', created: 1, model: 'counting' }
    const total = { ...usage, total_tokens: prompt + words.length }
    if (stream !== true) {
      const message = { role: 'assistant', content: words.join(' ') }
      response.setHeader('content-type', 'application/json')
      const choices = [{ index: 0, message, finish_reason: 'stop' }]
      return void response.end(JSON.stringify({ ...head, object: 'chat.completion', choices, usage: total }))
    }
    response.setHeader('content-type', 'text/event-stream')
    const send = (fields: object) =>
      response.write(`data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...fields })}\n\n`)
    for (const [at, word] of words.entries()) {
      const delta = { role: 'assistant', content: at === 0 ? word : ` ${word}` }
      send({ choices: [{ index: 0, delta, finish_reason: null }] })
      // As a model does, it writes while what it wrote is read.
      if (at % 20 === 0) await new Promise(setImmediate)
    }
    send({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })
    if (options?.include_usage === true) send({ choices: [], usage: total })
    response.end('data: [DONE]\n\n')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    usages,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function read(request: IncomingMessage): Promise<Asked> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return JSON.parse(Buffer.concat(chunks).toString('utf8')) as Asked
}
