/** T7: bodies in very small pieces. Each piece is an object of some 200 bytes, if it is kept as it came. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import type { FastifyReply } from 'fastify'
import { afterEach, expect, test } from 'vitest'
import { commandRuntime } from '../../src/agents/command.ts'
import type { AgentSale } from '../../src/http/public/agent-sale.ts'
import { createSiteReader } from '../../src/http/public/client-site.ts'
import { PublicLimits, publicLimits } from '../../src/http/public/public-limits.ts'
import { createPublicListener } from '../../src/http/public/public-listener.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { createGuardedRequest } from '../../src/lib/guarded-request.ts'
import { readBytes } from '../../src/lib/json-body.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { Meters } from '../../src/lib/meters.ts'
import { pinnedHttp } from '../../src/lib/pinned-http.ts'
import { fakeServer } from '../support/fake-api.ts'
import { heldDuring, heldNow } from '../support/held-memory.ts'

/** Of an answer: pieces of one byte. */
const ANSWER_BYTES = 500_000
/** Of a request: about as small as many pieces may be. */
const PIECES = 200_000
const PIECE_BYTES = 40
/** Of the output of a program: pieces of one byte. */
const PROGRAM_PIECES = 60_000
const AT_ONCE = 5_000
const HELD_MAX = 20 * 1024 * 1024
const LAST = '0\r\n\r\n'
const pieces = (bytes: number) => `${bytes.toString(16)}\r\n${'a'.repeat(bytes)}\r\n`.repeat(AT_ONCE)
const signal = () => AbortSignal.timeout(60_000)
const TOO_SMALL = 'thousands of small pieces'
const closing: (() => unknown)[] = []

afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

test('the public listener holds the bytes of a body, and not its pieces', async () => {
  let sold = 0
  const agentSale = {
    find: () => ({}),
    answerEarly: () => false,
    sell: async (_asked: unknown, { bytes }: { bytes: Buffer }, reply: FastifyReply) => {
      sold = bytes.length
      reply.send('{}')
      return 'result'
    },
  } as unknown as AgentSale
  const listener = createPublicListener(
    { host: '127.0.0.1', port: 0, url: undefined, drainMs: 0 },
    {
      ...{ logger: silentLogger, meters: new Meters(), agentSale, index: () => ({}), openApi: () => ({}) },
      doorSales: { idle: async () => {}, abort: () => {} },
      limits: new PublicLimits(publicLimits, { clock: systemClock }),
      sites: createSiteReader([]),
    },
  )
  await listener.start()
  closing.push(() => listener.stop())
  const port = Number(new URL(listener.url).port)
  const path = `/x402/${'a'.repeat(32)}`
  expect(await heldDuring(() => sendPieces(port, path))).toBeLessThan(HELD_MAX)
  expect(sold).toBe(PIECES * PIECE_BYTES)
  expect(await sendPieces(port, path, { bytes: 1 })).toContain(TOO_SMALL)
  expect(sold).toBe(PIECES * PIECE_BYTES)
})

test('the API of the operator holds the bytes of a body, and not its pieces', async () => {
  const { app } = fakeServer()
  await app.listen({ port: 0, host: '127.0.0.1' })
  closing.push(() => app.close())
  const { port } = app.server.address() as AddressInfo
  let answer = ''
  expect(await heldDuring(async () => (answer = await sendPieces(port, '/execute')))).toBeLessThan(HELD_MAX)
  expect(answer).toContain('"MALFORMED_JSON"')
  expect(await sendPieces(port, '/execute', { bytes: 1 })).toContain(TOO_SMALL)
})

test('an agent that is a program holds the bytes of its output, and not its pieces', async () => {
  // It pauses, because pieces that are not read yet come together.
  const program = `const cell = new Int32Array(new SharedArrayBuffer(4))
    for (let left = ${PROGRAM_PIECES}; left > 0; left--) {
      require('fs').writeSync(1, 'a')
      Atomics.wait(cell, 0, 0, 0.03)
    }
    setInterval(() => {}, 1000)`
  const command = [process.execPath, '-e', program]
  const agent = commandRuntime(
    { name: 'a', command, outputBytesMax: PROGRAM_PIECES, readEnv: (name) => process.env[name] },
    { logger: silentLogger },
  )
  const stop = new AbortController()
  const before = heldNow()
  let [shown, held] = [0, 0]
  const onOutput = (text: string) => {
    shown += text.length
    if (shown < PROGRAM_PIECES) return
    held = heldNow() - before
    stop.abort()
  }
  const ended = agent.run({ input: '', callerId: 'c', history: [], signal: stop.signal, onOutput })
  await expect(ended).rejects.toMatchObject({ code: 'AGENT_CANCELLED' })
  expect([shown, held]).toEqual([PROGRAM_PIECES, expect.toSatisfy((bytes: number) => bytes < HELD_MAX / 3)])
})

test('what MCP, A2A and the OpenAI door read holds the bytes of a body, and not its pieces', async () => {
  let read = 0
  const port = await serve(async (request, response) => {
    read = (await readBytes(request, PIECES * PIECE_BYTES)).length
    response.end()
  })
  expect(await heldDuring(() => sendPieces(port, '/'))).toBeLessThan(HELD_MAX)
  expect(read).toBe(PIECES * PIECE_BYTES)
})

test.each([
  ['in many small pieces', { bytes: 30 }, TOO_SMALL],
  ['in some small pieces', { bytes: 1, count: 1_000 }, 'read 1000'],
  ['in many pieces that are large enough', { count: 10_000 }, `read ${10_000 * PIECE_BYTES}`],
])('a body %s', async (_how, sending, answer) => {
  const port = await serve(async (request, response) => {
    const read = await readBytes(request, PIECES * PIECE_BYTES).catch((error: Error) => error)
    response.end(read instanceof Error ? read.message : `read ${read.length}`)
  })
  expect(await sendPieces(port, '/', sending)).toContain(answer)
})

test('a body beyond the limit is refused at the piece that crosses it', async () => {
  const port = await serve(async (request, response) => {
    const refusal = await readBytes(request, PIECES * PIECE_BYTES - 1).catch((error: unknown) => error)
    response.end(String((refusal as { code?: string }).code))
  })
  expect(await sendPieces(port, '/')).toContain('BODY_TOO_LARGE')
})

test('the result of a seller that is only a URL is held by its bytes', async () => {
  const port = await serve((_request, response) => answerPieces(response))
  const http = await pinnedHttp(`http://127.0.0.1:${port}`, { reach: 'private' }, signal())
  closing.push(() => http.close())
  let length = 0
  const buy = async () => {
    const request = { method: 'GET', path: '/', headers: {}, bodyBytesMax: ANSWER_BYTES }
    length = (await http.send(request, signal())).body.length
  }
  expect(await heldDuring(buy)).toBeLessThan(HELD_MAX)
  expect(length).toBe(ANSWER_BYTES)
})

test('the answer of a catalog is held by its bytes', async () => {
  const port = await serve((_request, response) => answerPieces(response))
  const request = createGuardedRequest({ publicOnly: false })
  let text = ''
  const ask = async () => {
    const asked = { method: 'GET' as const, headers: {}, signal: signal(), bytesMax: ANSWER_BYTES }
    text = (await request(`http://127.0.0.1:${port}/`, asked)).text
  }
  expect(await heldDuring(ask)).toBeLessThan(HELD_MAX)
  expect(text).toBe('a'.repeat(ANSWER_BYTES))
})

async function serve(answer: (request: IncomingMessage, response: ServerResponse) => unknown): Promise<number> {
  const server: Server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => server.close())
  return (server.address() as AddressInfo).port
}

/** Sends a body piece by piece, and gives the answer as it came. */
function sendPieces(port: number, path: string, { bytes = PIECE_BYTES, count = PIECES } = {}): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>()
  const socket = connect(port, '127.0.0.1')
  closing.push(() => socket.destroy())
  let answer = ''
  socket.on('data', (bytes) => {
    answer += bytes
  })
  // A refusal may come before all is sent.
  socket.on('error', () => {}).once('close', () => resolve(answer))
  const headers = 'Host: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nTransfer-Encoding: chunked'
  socket.write(`POST ${path} HTTP/1.1\r\n${headers}\r\n\r\n`)
  const some = pieces(bytes).slice(0, count < AT_ONCE ? count * (bytes + 4 + bytes.toString(16).length) : undefined)
  let left = count
  const more = () => {
    while (left > 0) {
      left -= AT_ONCE
      if (!socket.write(some)) return void socket.once('drain', more)
    }
    socket.write(LAST)
  }
  more()
  return promise
}

function answerPieces(response: ServerResponse): void {
  const { socket } = response
  socket!.write(
    'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n',
  )
  for (let left = ANSWER_BYTES; left > 0; left -= AT_ONCE) socket!.write(pieces(1))
  socket!.end(LAST)
}
