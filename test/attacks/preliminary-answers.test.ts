/** T7: a server that sends answers of status 1xx without end, to a node that asked it for something. */
import { type AddressInfo, createServer, type Server } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { glance } from '../../src/lib/glance.ts'
import { createGuardedRequest } from '../../src/lib/guarded-request.ts'
import { pinnedHttp } from '../../src/lib/pinned-http.ts'
import { createPost } from '../../src/lib/post.ts'

const HINT = 'HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n'
const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok'
const ENDLESS = 'without end'
let server: Server
let url: string
/** How many hints come before the answer. */
let hints: number

beforeEach(async () => {
  server = createServer((socket) => {
    let left = hints
    const more = () => {
      while (left-- > 0) if (!socket.write(HINT)) return void socket.once('drain', more)
      socket.end(ANSWER)
    }
    socket.once('data', more).on('error', () => {})
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
})

afterEach(() => {
  server.close()
})

const asking: [string, (signal: AbortSignal) => Promise<unknown>][] = [
  [
    'a seller that is only a URL',
    async (signal) => {
      const http = await pinnedHttp(new URL(url).origin, { reach: 'private' }, signal)
      try {
        const { status } = await http.send({ method: 'GET', path: '/', headers: {}, bodyBytesMax: 9 }, signal)
        return { status }
      } finally {
        await http.close()
      }
    },
  ],
  [
    'a catalog',
    async (signal) => {
      const request = createGuardedRequest({ publicOnly: false })
      const { status } = await request(url, { method: 'GET', headers: {}, signal, bytesMax: 9 })
      return { status }
    },
  ],
  [
    'a webhook',
    async (signal) => ({ status: await createPost({ publicOnly: false })(url, { headers: {}, body: '', signal }) }),
  ],
  [
    'a public address that is looked at',
    async (signal) => {
      const seen = await glance(new URL(url), { method: 'GET', bodyBytesMax: 0, signal })
      if (seen.kind !== 'answered') throw new Error(seen.reason)
      return { status: seen.status }
    },
  ],
]

test.each(asking)('%s may send a few, and not thousands', async (_who, ask) => {
  const signal = AbortSignal.timeout(60_000)
  hints = 10
  expect(await ask(signal)).toEqual({ status: 200 })
  hints = 10_000
  await expect(ask(signal)).rejects.toThrow(ENDLESS)
})
