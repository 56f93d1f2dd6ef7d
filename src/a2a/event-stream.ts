import type { ServerResponse } from 'node:http'

/** Interval of keep-alive comments on a silent stream. Proxies and clients give up on silence. */
const KEEP_ALIVE_MS = 15_000

/** An SSE answer. Writes after the client has left are dropped. */
type StreamAnswer = { send(event: object): void; fail(error: object): void; end(): void }

export function startEventStream(response: ServerResponse, headers: Readonly<Record<string, string>>): StreamAnswer {
  if (!response.destroyed) {
    response.writeHead(200, headers)
    response.flushHeaders()
  }
  const write = (text: string) => {
    if (response.writable) response.write(text)
  }
  const timer = setInterval(() => write(': still at work\n\n'), KEEP_ALIVE_MS)
  timer.unref()
  return {
    send: (event) => write(`data: ${JSON.stringify(event)}\n\n`),
    fail: (error) => write(`event: error\ndata: ${JSON.stringify(error)}\n\n`),
    end() {
      clearInterval(timer)
      response.end()
    },
  }
}
