/** T20: a seller that comes back, while calls still wait for what stood at its port before. */
import { createServer, type Server, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { createIdentity } from '../../src/p2p/identity.ts'
import { ECHO, echo, startVictim, within } from '../support/attack.ts'
import { expectBearable } from '../support/honest-calls.ts'
import { freePort } from '../support/loopback.ts'
import { startTestHost, whereIs } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** Takes connections at a port and says nothing, as a forwarded port does whose program is away. */
async function silence(port: number): Promise<{ leave(): Promise<void>; taken(): number }> {
  const sockets: Socket[] = []
  const server: Server = createServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
  })
  await new Promise<void>((resolve) => void server.listen(port, '127.0.0.1', resolve))
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy()
  })
  return {
    // It listens no more; what it has taken hangs on.
    leave: async () => void server.close(),
    taken: () => sockets.length,
  }
}

/** The buyer looks for nobody by itself, and gives a dial as long as the test lasts. */
const timing = { attemptMs: 60_000, rejoinEveryMs: 3_600_000 }

test('T20 a call after the restart does not wait for a dial that began while the port was shut', async () => {
  const [identity, port, buyer] = [await createIdentity(), await freePort(), await startTestHost({ timing })]
  cleanups.push(() => buyer.stop())
  const where = { peerId: identity.peerId, addrs: [`/ip4/127.0.0.1/tcp/${port}/p2p/${identity.peerId}`] }
  const before = await silence(port)
  let isOver = false
  const calling = buyer.openStream(where, ECHO, within(50_000)).finally(() => {
    isOver = true
  })
  calling.catch(() => {})
  await until(() => before.taken() > 0)
  await before.leave()

  const seller = await startVictim({ identity, port })
  cleanups.push(() => seller.stop())
  // Those that come within half a second join the dial that hangs; each later one makes its own.
  const began = performance.now()
  await until(() => performance.now() - began > 600)
  await echo(await buyer.openStream(where, ECHO, within(20_000)))
  expect(isOver).toBe(false)
})

test('T20 calls to sellers that never answer a dial leave the calls to an honest seller as quick as before', {
  retry: 2,
}, async () => {
  const [buyer, honest] = [await startTestHost({ timing }), await startVictim()]
  cleanups.push(
    () => buyer.stop(),
    () => honest.stop(),
  )
  const port = await freePort()
  const hole = await silence(port)
  const stream = await buyer.openStream(whereIs(honest, 'tcp'), ECHO, within(60_000))
  await expectBearable(
    () => echo(stream),
    async () => {
      const ends = Array.from({ length: 60 }, async () => {
        const { peerId } = await createIdentity()
        const addrs = [`/ip4/127.0.0.1/tcp/${port}/p2p/${peerId}`]
        await buyer.openStream({ peerId, addrs }, ECHO, within(2_000)).catch(() => {})
      })
      await Promise.all(ends)
    },
  )
  expect(hole.taken()).toBeGreaterThan(0)
  // The hole is still there, and a seller that was away is reached all the same.
  await echo(await buyer.openStream(whereIs(honest, 'tcp'), ECHO, within(60_000)))
})
