/** T36: clients with many addresses that take all places of the public listener and send slowly, or nothing. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, expect, test } from 'vitest'
import type { AgentSale } from '../../src/http/public/agent-sale.ts'
import { createSiteReader } from '../../src/http/public/client-site.ts'
import { PublicLimits, publicLimits } from '../../src/http/public/public-limits.ts'
import { createPublicListener, type PublicListener } from '../../src/http/public/public-listener.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { readBytes } from '../../src/lib/json-body.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { Meters } from '../../src/lib/meters.ts'
import { send } from '../support/public-seller.ts'

/** Where another protocol reads bodies on its own. */
const MOUNT = '/other'
const sockets: Socket[] = []
let listener: PublicListener

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy()
  await listener.stop()
})

async function start(limits: Partial<typeof publicLimits>, connectionsMax?: { each: number; all: number }) {
  listener = createPublicListener(
    { host: '127.0.0.1', port: 0, url: undefined, drainMs: 0, ...(connectionsMax && { connectionsMax }) },
    {
      ...{
        logger: silentLogger,
        meters: new Meters(),
        agentSale: {} as AgentSale,
        index: () => ({}),
        openApi: () => ({}),
      },
      doorSales: { idle: async () => {}, abort: () => {} },
      mounts: [
        {
          path: MOUNT,
          handle: async ({ request, response }) => void response.end(String((await readBytes(request, 1_000)).length)),
          stop: async () => {},
        },
      ],
      limits: new PublicLimits({ ...publicLimits, ...limits }, { clock: systemClock }),
      sites: createSiteReader([]),
    },
  )
  await listener.start()
}

/** A connection from an address of its own. It sends a part of a request that the server has begun to read, or nothing. */
async function open(address: number, begun?: string): Promise<Socket> {
  const { hostname, port } = new URL(listener.url)
  const socket = connect({ host: hostname, port: Number(port), localAddress: `127.7.0.${address}` })
  sockets.push(socket.on('error', () => {}))
  await once(socket, 'connect')
  if (begun !== undefined) {
    socket.write(begun)
    expect(String(await once(socket, 'data'))).toMatch(/^HTTP\/1\.1 100 /)
  }
  return socket
}

const slowly = `POST ${MOUNT}/x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\nslow`

/** From an address of the others. A client sends its request again if its connection breaks before the first byte. */
const ask = (body: string) => send(`${listener.url}${MOUNT}/x`, { body })

test('requests that come slowly, from as many addresses as there are places, give them up to others, the oldest first', async () => {
  await start({ atOnce: 16, atOncePerSite: 4 })
  const slow: Socket[] = []
  for (let address = 1; address <= 16; address++) slow.push(await open(address, slowly))
  const oldest = text(slow[0]!)
  for (let asked = 0; asked < 8; asked++) expect((await ask('at once')).text).toBe('7')
  expect(await oldest).toMatch(/^HTTP\/1\.1 503 [\s\S]*"BUSY"/)
  // The newest has its place all the same, and ends well.
  const newest = slow.at(-1)!
  newest.write('x'.repeat(96))
  expect(String(await once(newest, 'data'))).toMatch(/^HTTP\/1\.1 200 /)
})

test('connections that say nothing, from as many addresses as there are places, give them up to others, the oldest first', async () => {
  await start({}, { each: 4, all: 16 })
  const busy = await open(1, slowly)
  const quiet: Socket[] = []
  for (let address = 2; address <= 16; address++) quiet.push(await open(address))
  const oldest = once(quiet[0]!, 'close')
  const late = await open(17, slowly)
  await oldest
  // Who was asking when all places were taken is answered.
  for (const socket of [busy, late]) {
    socket.write('x'.repeat(96))
    expect(String(await once(socket, 'data'))).toMatch(/^HTTP\/1\.1 200 /)
  }
  expect(quiet.at(-1)!.readyState).toBe('open')
})
