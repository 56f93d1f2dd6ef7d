import { multiaddr } from '@multiformats/multiaddr'
import { afterEach, expect, test } from 'vitest'
import { silentLogger } from '../lib/logger.ts'
import { AddressProof } from './address-proof.ts'
import type { Node } from './modules.ts'
import type { PeerBook } from './peer-book.ts'

const stopping = new AbortController()
afterEach(() => stopping.abort())

/** A node that listens on 192.168.1.7:4001, and notes which addresses outside are taken for its own. */
function build(routerIsAsked: () => boolean) {
  const own = new Set<string>()
  const looked = { times: 0 }
  const key = (host: string, port: number, outside: string, outsidePort: number, protocol: string) =>
    `${protocol} ${outside}:${outsidePort} ${host}:${port}`
  const libp2p = Object.assign(new EventTarget(), {
    getConnections: () => [],
    services: {
      inside: {
        transportManager: { getAddrs: () => [multiaddr('/ip4/192.168.1.7/tcp/4001')] },
        addressManager: {
          getAddressesWithMetadata: () => {
            looked.times += 1
            return []
          },
          addPublicAddressMapping: (...args: Parameters<typeof key>) => own.add(key(...args)),
          removePublicAddressMapping: (...args: Parameters<typeof key>) => own.delete(key(...args)),
        },
      },
    },
  })
  const deps = { logger: silentLogger, book: {} as PeerBook, clock: { now: () => 0 }, isTrusted: () => true }
  const proof = new AddressProof({ ...deps, libp2p: libp2p as unknown as Node, routerIsAsked })
  const seenFrom = (address: string) => {
    const detail = { peerId: 'a', observedAddr: multiaddr(address), connection: { direction: 'outbound' } }
    libp2p.dispatchEvent(new CustomEvent('peer:identify', { detail }))
  }
  return { own, looked, proof, seenFrom }
}

test('where the router is asked, nothing is guessed before it has answered; what it says stands for the guess', async () => {
  let asked = true
  const { own, looked, proof, seenFrom } = build(() => asked)
  const running = proof.run({ proofLookMs: 1, proofEveryMs: 60_000 }, stopping.signal)
  seenFrom('/ip4/9.9.9.9/tcp/55555')
  await expect.poll(() => looked.times).toBeGreaterThan(2)
  expect([...own]).toEqual([])

  asked = false
  await expect.poll(() => [...own]).toEqual(['tcp 9.9.9.9:4001 192.168.1.7:4001'])
  const port = {
    protocol: 'tcp' as const,
    host: '192.168.1.7',
    port: 4001,
    externalHost: '9.9.9.9',
    externalPort: 4002,
  }
  proof.mapped([port])
  expect([...own]).toEqual(['tcp 9.9.9.9:4002 192.168.1.7:4001'])
  seenFrom('/ip4/9.9.9.9/tcp/55555')
  expect(own.size).toBe(1)
  proof.mapped([{ ...port, externalHost: '8.8.4.4' }])
  expect([...own]).toEqual(['tcp 8.8.4.4:4002 192.168.1.7:4001'])
  proof.mapped([])
  expect([...own]).toEqual([])
  stopping.abort()
  await running
})
