import { expect, onTestFinished, test } from 'vitest'
import { startTestHost } from '../../test/support/test-host.ts'
import { until } from '../../test/support/until.ts'
import { createDialHost } from './dial-host.ts'
import { createIdentity } from './identity.ts'
import { addressesOf, inOwnOrder } from './multiaddrs.ts'

/** A peer of three processes, which note whom they meet. */
async function threeProcesses() {
  const identity = await createIdentity()
  const met: number[] = []
  const processes = [
    await startTestHost({ identity }),
    await startTestHost({ identity }),
    await startTestHost({ identity }),
  ]
  for (const [index, host] of processes.entries()) await host.handle('/x/1', () => void met.push(index))
  onTestFinished(async () => void (await Promise.all(processes.map((host) => host.stop()))))
  const addrs = processes.flatMap((host) => host.addresses().slice(0, 1))
  const own = (dialer: string) =>
    inOwnOrder(addressesOf(identity.peerId, addrs), dialer).map((address) => addrs.indexOf(String(address)))
  return { peer: { peerId: identity.peerId, addrs }, met, processes, own }
}

async function dialer(identity = createIdentity()) {
  const host = await createDialHost({ identity: await identity, version: 'x' })
  await host.start()
  onTestFinished(() => host.stop())
  return host
}

test('a peer of several processes is dialed in the order of the one who dials, from its next one after each loss', async () => {
  const { peer, met, own } = await threeProcesses()
  for (const host of [await dialer(), await dialer()]) {
    met.length = 0
    const [first, second, third] = own(host.peerId)
    for (let count = 1; count <= 4; count += 1) {
      host.leave()
      await host.openStream(peer, '/x/1', AbortSignal.timeout(10_000))
      await until(() => met.length === count)
    }
    expect(met).toEqual([first, second, third, first])
  }
})

test('a connection that is open is used again, and an address that is gone is passed over', async () => {
  const { peer, met, own, processes } = await threeProcesses()
  const host = await dialer()
  const [first, second, third] = own(host.peerId)
  await processes[second!]!.stop()
  for (let count = 1; count <= 2; count += 1) {
    await host.openStream(peer, '/x/1', AbortSignal.timeout(10_000))
    await until(() => met.length === count)
  }
  host.leave()
  await host.openStream(peer, '/x/1', AbortSignal.timeout(10_000))
  await until(() => met.length === 3)
  expect(met).toEqual([first, first, third])
})

test('where nobody answers, the next attempt begins with the first address again', async () => {
  const { peer, met, own } = await threeProcesses()
  const host = await dialer()
  const [first] = own(host.peerId)
  const open = (addrs: readonly string[]) =>
    host.openStream({ ...peer, addrs }, '/x/1', AbortSignal.timeout(10_000)).then(
      () => undefined,
      ({ code }) => code,
    )
  expect(await open(peer.addrs)).toBeUndefined()
  host.leave()
  expect(await open(['/ip4/127.0.0.1/tcp/9'])).toBe('PEER_UNREACHABLE')
  expect(await open(peer.addrs)).toBeUndefined()
  await until(() => met.length === 2)
  expect(met).toEqual([first, first])
})
