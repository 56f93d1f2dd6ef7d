import { expect, onTestFinished, test } from 'vitest'
import { startTestHost } from '../../test/support/test-host.ts'
import { until } from '../../test/support/until.ts'
import { createDialHost } from './dial-host.ts'
import { createIdentity } from './identity.ts'

test('a peer of several processes is dialed at any of its addresses', async () => {
  const identity = await createIdentity()
  const met: number[] = []
  const processes = [await startTestHost({ identity }), await startTestHost({ identity })]
  for (const [index, host] of processes.entries()) {
    await host.handle('/x/1', (stream) => {
      met.push(index)
      stream.abort(new Error('enough'))
    })
  }
  onTestFinished(async () => void (await Promise.all(processes.map((host) => host.stop()))))
  const addrs = processes.flatMap((host) => host.addresses().slice(0, 1))
  for (const [count, random] of [0, 0.99, 0.3, 0.6].entries()) {
    const dialing = await createDialHost({ identity: await createIdentity(), version: 'x', random: () => random })
    await dialing.start()
    const stream = await dialing.openStream({ peerId: identity.peerId, addrs }, '/x/1', AbortSignal.timeout(10_000))
    await until(() => met.length === count + 1)
    stream.abort(new Error('enough'))
    await dialing.stop()
  }
  expect(met).toEqual([0, 1, 0, 1])
})
