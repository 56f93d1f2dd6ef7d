/** T35: clients of the OpenAI door that do not read their answers. Each answer would stay in memory. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { promisify } from 'node:util'
import { afterEach, expect, test } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { Meters } from '../../src/lib/meters.ts'
import { createDoor, type Door } from '../../src/openai/door.ts'
import type { ExecutionResult } from '../../src/schema/api.ts'
import { listedAgent } from '../support/listings.ts'
import { until } from '../support/until.ts'

const MIB = 1024 * 1024
/** More than the buffers of two sockets of this machine take. */
const WHOLE = 'x'.repeat(16 * MIB)
let server: Server
let door: Door
let sockets: Socket[] = []
let bought = 0

afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  sockets = []
  door.stop()
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
})

/** A door to an agent that gives a long answer to any task. The header `key` tells which token asks. */
async function start(stalledMs?: number): Promise<void> {
  bought = 0
  const listing = listedAgent('long', 0n)
  const results = new Map<string, ExecutionResult>()
  door = createDoor(
    { maxPriceAtomic: 1n, ...(stalledMs !== undefined && { stalledMs }) },
    {
      ...{ clock: systemClock, logger: silentLogger, meters: new Meters(), perCall: () => 1n, isAllowed: () => true },
      search: { find: () => listing, page: () => ({ items: [listing], next: undefined }) },
      async execute({ onProgress }) {
        const order_id = `order ${++bought}`
        const result = { output: WHOLE, payment: null, order_id } as ExecutionResult
        results.set(order_id, result)
        onProgress?.({ type: 'output', data: { text: WHOLE } })
        return result
      },
      again: async (orderId) => results.get(orderId) ?? 'given up',
      orderOf: async () => undefined,
      lastOrder: async () => undefined,
      ownToken: async () => ({ scope: 'spend', tokenId: 'door' }),
    },
  )
  server = createServer((request, response) => {
    const leaving = new AbortController()
    response.once('close', () => leaving.abort(new Error('the client has left')))
    const caller = { scope: 'execute', tokenId: String(request.headers.key) } as const
    const call = { request, response, path: request.url!, caller, signal: leaving.signal }
    void door.handle(call)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
}

const port = () => (server.address() as AddressInfo).port
const body = (task: string, stream: boolean) =>
  JSON.stringify({ model: 'long', stream, messages: [{ role: 'user', content: task }] })

/** Asks, and reads nothing. */
function askAndStall(key: string, task: string, stream: boolean): void {
  const text = body(task, stream)
  const head = `POST /chat/completions HTTP/1.1\r\nHost: x\r\nkey: ${key}\r\nContent-Type: application/json\r\n`
  const socket = connect({ host: '127.0.0.1', port: port() }, () =>
    socket.write(`${head}Content-Length: ${text.length}\r\n\r\n${text}`),
  ).pause()
  socket.on('error', () => {})
  sockets.push(socket)
}
async function ask(key: string, task: string, stream: boolean) {
  const headers = { 'content-type': 'application/json', key }
  const init = { method: 'POST', headers, body: body(task, stream) }
  const response = await fetch(`http://127.0.0.1:${port()}/chat/completions`, init)
  const text = await response.text()
  return { status: response.status, isWhole: text.length > WHOLE.length, text: text.slice(0, 500), response }
}

test('T35 answers that wait for their readers take their share of the memory, and are not bought twice', async () => {
  await start()
  expect(await ask('one', 'first', false)).toMatchObject({ status: 200, isWhole: true })
  for (const task of ['a', 'b', 'c', 'd', 'e']) askAndStall('one', task, false)
  await until(() => bought === 6)
  const refused = await ask('one', 'mine', false)
  expect(refused).toMatchObject({ status: 503, text: expect.stringMatching(/same request again/) })
  expect(refused.response.headers.get('retry-after')).toBe('2')
  expect(refused.response.headers.get('x-should-retry')).toBeNull()
  // Others have a share of their own.
  expect(await ask('other', 'mine', false)).toMatchObject({ status: 200, isWhole: true })
  for (const socket of sockets) socket.destroy()
  await until(async () => (await ask('one', 'mine', false)).isWhole, { everyMs: 50 })
  expect(bought).toBe(8)
})

test('T35 a stream that has no room is cut off, and gives its result when it is asked for again', async () => {
  await start()
  expect(await ask('one', 'first', true)).toMatchObject({ status: 200, isWhole: true })
  for (const task of ['a', 'b', 'c', 'd', 'e']) askAndStall('one', task, true)
  await until(() => bought === 6)
  await expect(ask('one', 'mine', true)).rejects.toThrow()
  for (const socket of sockets) socket.destroy()
  await until(async () => (await ask('one', 'mine', true).catch(() => undefined))?.isWhole, { everyMs: 50 })
  expect(bought).toBe(7)
})

test('T35 an answer of which nothing is read is dropped with its connection', async () => {
  await start(200)
  askAndStall('one', 'a', false)
  await until(() => bought === 1)
  const open = promisify(server.getConnections.bind(server))
  await until(async () => (await open()) === 0, { everyMs: 20 })
})
