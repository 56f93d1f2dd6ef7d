/** T36: clients of the public listener that do not read their answers. Each answer would stay in memory. */
import { connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import type { AgentSale } from '../../src/http/public/agent-sale.ts'
import { createSiteReader } from '../../src/http/public/client-site.ts'
import { PublicLimits, publicLimits } from '../../src/http/public/public-limits.ts'
import { createPublicListener, type PublicListener } from '../../src/http/public/public-listener.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { Meters } from '../../src/lib/meters.ts'
import { send } from '../support/public-seller.ts'
import { until } from '../support/until.ts'

const MIB = 1024 * 1024
const PATH = `/x402/${'a'.repeat(32)}`
const REQUEST = `POST ${PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx`
let listener: PublicListener
let sockets: Socket[] = []
let sold = 0

afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  sockets = []
  await listener.stop()
})

/** Sells an agent that gives `bytes` for any task. */
async function start(bytes: number, { limits = {}, unreadMs = 60_000 } = {}): Promise<void> {
  sold = 0
  const agentSale = {
    find: () => ({}),
    answerEarly: () => false,
    sell: async (_asked: unknown, _body: unknown, reply: { type(kind: string): { send(text: string): void } }) => {
      sold++
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
      limits: new PublicLimits({ ...publicLimits, ...limits }, { clock: systemClock }),
      sites: createSiteReader([]),
    },
  )
  await listener.start()
}

/** Asks, and reads nothing. */
function askAndStall(): void {
  const { hostname, port } = new URL(listener.url)
  const socket = connect({ host: hostname, port: Number(port) }, () => socket.write(REQUEST)).pause()
  socket.on('error', () => {})
  sockets.push(socket)
}
const task = () => send(listener.url + PATH, { headers: { 'content-type': 'text/plain' }, body: 'x' })

test('an answer that nobody reads is dropped with its connection, and its place is free again', async () => {
  await start(16 * MIB, { limits: { atOncePerSite: 1 }, unreadMs: 2_000 })
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
