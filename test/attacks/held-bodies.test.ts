/** T7 T36: what strangers may make the public listener hold and do, by each method. */
import { connect, type Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import { afterEach, expect, test } from 'vitest'
import type { AgentSale } from '../../src/http/public/agent-sale.ts'
import { createSiteReader } from '../../src/http/public/client-site.ts'
import { PublicLimits, publicLimits } from '../../src/http/public/public-limits.ts'
import { createPublicListener, type PublicListener } from '../../src/http/public/public-listener.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { readBytes } from '../../src/lib/json-body.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { Meters } from '../../src/lib/meters.ts'
import type { PaymentCheck } from '../../src/protocols/doors/payment-check.ts'
import { BODY_BYTES_MAX } from '../../src/schema/limits.ts'
import { send } from '../support/public-seller.ts'

/** Where another protocol reads bodies on its own. */
const MOUNT = '/other'
let listener: PublicListener
const sockets: Socket[] = []

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy()
  await listener.stop()
})

async function start(limits: Partial<typeof publicLimits>, agentSale = {} as AgentSale): Promise<void> {
  listener = createPublicListener(
    { host: '127.0.0.1', port: 0, url: undefined, drainMs: 0 },
    {
      ...{ logger: silentLogger, meters: new Meters(), agentSale, index: () => ({}), openApi: () => ({}) },
      doorSales: { idle: async () => {}, abort: () => {} },
      mounts: [
        {
          path: MOUNT,
          async handle({ request, response, check }) {
            if (request.headers['x-bad-payment'] !== undefined) check.refused()
            response.end(String((await readBytes(request, BODY_BYTES_MAX)).length))
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

/** Announces a body, of which so many bytes come. @returns the first line of an answer that comes before the rest */
function announce(method: string, length: string, sent: Uint8Array | string = ''): Promise<string> {
  const { hostname, port } = new URL(listener.url)
  const head = `${method} ${MOUNT}/x HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${length}\r\n\r\n`
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) }, () => {
      socket.write(head)
      socket.write(sent)
    })
    socket.on('error', () => {}).once('data', (bytes) => resolve(String(bytes).split('\r\n', 1)[0]!))
    sockets.push(socket)
  })
}

const MUCH = `Content-Length: ${BODY_BYTES_MAX}`
const CHUNKED = 'Transfer-Encoding: chunked'
/** All of a body but its end. */
const most = Buffer.alloc(BODY_BYTES_MAX - 1, ' ')
const chunk = Buffer.concat([Buffer.from(`${most.length.toString(16)}\r\n`), most])

test.each([
  ['POST', MUCH, most],
  ['GET', MUCH, most],
  ['DELETE', MUCH, most],
  ['GET', CHUNKED, chunk],
])('a body that comes by %s takes room: %s', async (method, length, sent) => {
  await start({ bytesPerSite: 2 * BODY_BYTES_MAX })
  const three = [1, 2, 3].map(() => announce(method, length, sent))
  expect(await Promise.race(three)).toBe('HTTP/1.1 429 Too Many Requests')
  // A request without a body takes none.
  expect((await send(`${listener.url}${MOUNT}/x`, { method })).text).toBe('0')
})

test('who announces bodies and does not send them keeps nobody out', async () => {
  await start({ bytes: 2 * BODY_BYTES_MAX })
  for (let body = 0; body < 8; body++) {
    for (const length of [MUCH, CHUNKED]) void announce('POST', length, '1\r\n')
  }
  // All of them have come when this has, because they came first.
  for (const length of [0, 1_000, 4 * 1024 * 1024]) {
    expect((await send(`${listener.url}${MOUNT}/x`, { body: 'x'.repeat(length) })).text).toBe(String(length))
  }
})

test('while bodies fill all room, a short one is read all the same', async () => {
  await start({ bytes: 2 * BODY_BYTES_MAX })
  expect(await Promise.race([1, 2, 3].map(() => announce('POST', MUCH, most)))).toBe('HTTP/1.1 503 Service Unavailable')
  expect((await send(`${listener.url}${MOUNT}/x`, { body: 'x'.repeat(60_000) })).text).toBe('60000')
})

test('made-up refunds of payment channels, which clients ask for by GET, slow their address down', async () => {
  const agentSale = {
    find: () => ({ agentId: 'a', resource: { url: '' } }),
    async answerGet(_asked: unknown, { check }: { check: PaymentCheck }, reply: FastifyReply) {
      check.refused()
      reply.code(402).send('{}')
    },
  } as unknown as AgentSale
  await start({ payments: { burst: 22, perSecond: 0 } }, agentSale)
  const statuses: number[] = []
  for (let asked = 0; asked < 3; asked++) {
    const headers = { 'payment-signature': 'e30=' }
    statuses.push((await send(`${listener.url}/x402/${'a'.repeat(32)}`, { method: 'GET', headers })).status)
  }
  expect(statuses).toEqual([402, 402, 429])
})

test('payments in bodies that buy nothing, as of MCP and A2A, slow their address down', async () => {
  await start({ asks: { burst: 22, perSecond: 0 } })
  const statuses: number[] = []
  for (let asked = 0; asked < 3; asked++) {
    statuses.push((await send(`${listener.url}${MOUNT}/x`, { headers: { 'x-bad-payment': '1' }, body: '{}' })).status)
  }
  expect(statuses).toEqual([200, 200, 429])
})
