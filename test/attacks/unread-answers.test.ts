/** T36: clients of the public listener that do not read their answers. Each answer would stay in memory. */
import type { ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import { afterEach, expect, test } from 'vitest'
import type { AgentSale } from '../../src/http/public/agent-sale.ts'
import { createSiteReader } from '../../src/http/public/client-site.ts'
import { PublicLimits, publicLimits } from '../../src/http/public/public-limits.ts'
import { createPublicListener, type PublicListener } from '../../src/http/public/public-listener.ts'
import { sendShown } from '../../src/http/public/shown-answer.ts'
import { ShownOutput } from '../../src/http/public/shown-output.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { Meters } from '../../src/lib/meters.ts'
import { send } from '../support/public-seller.ts'
import { until } from '../support/until.ts'

const MIB = 1024 * 1024
const PATH = `/x402/${'a'.repeat(32)}`
const requestOf = (path: string) =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx`
/** Where another protocol writes answers on its own. */
const MOUNT = '/other'
type Answering = (response: ServerResponse) => void
let listener: PublicListener
let sockets: Socket[] = []
let sold = 0

afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  sockets = []
  await listener.stop()
})

/** Sells an agent that gives `bytes` for any task. */
async function start(
  bytes: number,
  { limits = {}, unreadMs = 60_000, answer = (() => {}) as Answering } = {},
): Promise<void> {
  sold = 0
  const agentSale = {
    find: (_id: string, _headers: object, how: object = {}) => how,
    answerEarly: () => false,
    sell: async ({ isStreamed }: { isStreamed?: boolean }, _body: unknown, reply: FastifyReply) => {
      sold++
      if (isStreamed === true) {
        const shown = new ShownOutput()
        shown.end()
        await sendShown(shown, async () => ({ result: 'x'.repeat(bytes) }), reply)
        return 'result'
      }
      reply.type('text/plain').send('x'.repeat(bytes))
      return 'result'
    },
  } as unknown as AgentSale
  listener = createPublicListener(
    {
      ...{ host: '127.0.0.1', port: 0, url: undefined, drainMs: 0 },
      timing: { unreadMs, checkEveryMs: 20 },
    },
    {
      ...{ logger: silentLogger, meters: new Meters(), agentSale, index: () => ({}), openApi: () => ({}) },
      doorSales: { idle: async () => {}, abort: () => {} },
      mounts: [
        {
          path: MOUNT,
          async handle({ request, response }) {
            for await (const _ of request);
            answer(response)
          },
          stop: async () => {},
        },
      ],
      limits: new PublicLimits({ ...publicLimits, ...limits }, { clock: systemClock }),
      sites: createSiteReader([]),
    },
  )
  await listener.start()
}

/** Asks, and reads nothing. */
function askAndStall(path = PATH): void {
  const { hostname, port } = new URL(listener.url)
  const socket = connect({ host: hostname, port: Number(port) }, () => socket.write(requestOf(path))).pause()
  socket.on('error', () => {})
  sockets.push(socket)
}
const task = (path = PATH) => send(listener.url + path, { headers: { 'content-type': 'text/plain' }, body: 'x' })

test('an answer that nobody reads is dropped with its connection, and its place is free again', async () => {
  await start(16 * MIB, { limits: { atOncePerSite: 1 }, unreadMs: 4_000 })
  askAndStall()
  await until(() => sold === 1, { everyMs: 5 })
  expect((await send(`${listener.url}/x402`, { method: 'GET' })).status).toBe(429)
  await until(async () => (await send(`${listener.url}/x402`, { method: 'GET' })).status === 200, { everyMs: 50 })
})

test('answers that wait for their readers take no more memory than bodies may, and no place of others is lost', async () => {
  await start(16 * MIB)
  for (let count = 0; count < 6; count++) askAndStall()
  await until(async () => (await task()).status === 503, { everyMs: 20 })
  const { json, headers } = await task()
  expect(json).toMatchObject({ error: { code: 'BUSY', detail: expect.stringMatching(/same request again/) } })
  expect(headers.get('retry-after')).toBe('2')
  for (const socket of sockets) socket.destroy()
  await until(async () => (await task()).text.length === 16 * MIB, { everyMs: 50 })
})

const whole = 'x'.repeat(16 * MIB)
const piece = 'x'.repeat(MIB)
test.each<[string, string, Answering, 'refused' | 'cut off']>([
  ['of MCP, A2A, at once', MOUNT, (response) => void response.writeHead(200).end(whole), 'refused'],
  ['of MCP, A2A, without a head of its own', MOUNT, (response) => void response.end(whole), 'refused'],
  [
    'of MCP, A2A, as one event',
    MOUNT,
    (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(whole)
      response.end()
    },
    'refused',
  ],
  [
    'of MCP, A2A, after a beginning',
    MOUNT,
    (response) => {
      response.writeHead(200).flushHeaders()
      response.end(whole)
    },
    'cut off',
  ],
  [
    'of MCP, A2A, in pieces that wait for nobody',
    MOUNT,
    (response) => {
      for (let count = 0; count < 16; count++) response.write(piece)
      response.end()
    },
    'cut off',
  ],
  ['of a stream', `${PATH}/stream`, () => {}, 'cut off'],
])('answers that wait for their readers take their share of the memory: %s', async (_, path, answer, told) => {
  await start(16 * MIB, { answer })
  const ask = () => task(path).catch(() => undefined)
  const given = await ask()
  expect([given?.status, given!.text.length]).toEqual([200, expect.any(Number)])
  expect(given!.text.length).toBeGreaterThanOrEqual(16 * MIB)
  for (let count = 0; count < 6; count++) askAndStall(path)
  await until(async () => (await ask())?.status !== 200, { everyMs: 20 })
  const answered = await ask()
  if (told === 'cut off') expect(answered).toBeUndefined()
  else {
    expect(answered).toMatchObject({ status: 503, json: { error: { code: 'BUSY' } } })
    expect(answered!.headers.get('retry-after')).toBe('2')
  }
  expect((await send(`${listener.url}/x402`, { method: 'GET' })).status).toBe(200)
  for (const socket of sockets) socket.destroy()
  await until(async () => (await ask())?.text === given!.text, { everyMs: 50 })
})

test('a client that reads slowly gets everything', async () => {
  await start(16 * MIB, { unreadMs: 30_000 })
  askAndStall()
  const [socket] = sockets
  let length = 0
  for await (const chunk of socket!) {
    length += (chunk as Buffer).length
    if (length > 16 * MIB) break
  }
  expect(length).toBeGreaterThan(16 * MIB)
})
