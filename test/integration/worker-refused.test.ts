/** A worker that a process of its seller refuses, over a connection that stays open. */
import { expect, onTestFinished, test } from 'vitest'
import { silentLogger } from '../../src/lib/logger.ts'
import { runWorker } from '../../src/node/worker-node.ts'
import { createIdentity } from '../../src/p2p/identity.ts'
import { FramedStream } from '../../src/protocols/framed-stream.ts'
import { WORK_PROTOCOL } from '../../src/schema/work.ts'
import { writeJoinToken } from '../../src/workers/join-token.ts'
import { writeWork } from '../../src/workers/work-messages.ts'
import { testDir } from '../support/loopback-node.ts'
import { startTestHost } from '../support/test-host.ts'

test('a worker that is refused by a process that stops or is full goes to the next one', async () => {
  const identity = await createIdentity()
  const processes = [await startTestHost({ identity }), await startTestHost({ identity })]
  onTestFinished(async () => void (await Promise.all(processes.map((host) => host.stop()))))
  const refusing: number[] = []
  const leaving = new AbortController()
  for (const [index, host] of processes.entries()) {
    await host.handle(WORK_PROTOCOL, async (stream) => {
      if (refusing.push(index) === 3) leaving.abort(new Error('enough'))
      const framed = new FramedStream(stream)
      const message = { version: '1.0', code: 'OVERLOADED', message: 'come back later' } as const
      await writeWork(framed, 'work.refused', message, leaving.signal).catch(() => {})
      await framed.close(leaving.signal).catch(() => {})
    })
  }
  const addrs = processes.flatMap((host) => host.addresses().slice(0, 1))
  const token = writeJoinToken({ peer: identity.peerId, addrs, id: 'x', secret: 'y' })
  const ports = { secrets: { providerKeys: {}, env: () => undefined }, logger: silentLogger, onReady: () => {} }
  await runWorker({ dataDir: await testDir(), token, runsMax: 1, definitions: [] }, ports, leaving.signal)
  const [first, second, third] = refusing
  expect([second, third]).toEqual([1 - first!, first])
})
