import { multiaddr } from '@multiformats/multiaddr'
import { afterEach, expect, test } from 'vitest'
import { silentLogger } from '../../lib/logger.ts'
import type { Node } from '../modules.ts'
import type { PeerBook } from '../peer-book.ts'
import { AddressProof } from './address-proof.ts'
import type { DialedBack } from './dial-back.ts'

const stopping = new AbortController()
afterEach(() => stopping.abort())

const timing = { proofLookMs: 1, proofEveryMs: 60_000, proofRetryMs: 60_000 }

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
  const dialBack = { ask: async () => 'refused' as const }
  const deps = { logger: silentLogger, dialBack, book: {} as PeerBook, clock: { now: () => 0 }, isTrusted: () => true }
  const proof = new AddressProof({ ...deps, libp2p: libp2p as unknown as Node, routerIsAsked })
  const seenFrom = (address: string) => {
    const detail = {
      peerId: 'a',
      observedAddr: multiaddr(address),
      connection: { direction: 'outbound', remoteAddr: multiaddr('/ip4/7.7.7.7/tcp/1') },
    }
    libp2p.dispatchEvent(new CustomEvent('peer:identify', { detail }))
  }
  return { own, looked, proof, seenFrom }
}

test('the router’s answer replaces the guess of the public address, and nothing is guessed before it', async () => {
  let asked = true
  const { own, looked, proof, seenFrom } = build(() => asked)
  const running = proof.run(timing, stopping.signal)
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

/**
 * `breaks`: how many of its connections break while it is asked; there is a new one at once. `misses`: how often it proves
 * nothing before it answers.
 */
type Peer = {
  host: string
  answers: DialedBack
  isTrusted?: boolean
  breaks?: number
  misses?: { count: number; how: 'breaks off' | 'refused' | 'failed' }
}

/** A node that listens on a public address, and peers that are asked about it. @returns whether it came to be announced */
async function judged(
  peers: readonly Peer[],
  { verified = false, proofRetryMs = timing.proofRetryMs } = {},
): Promise<{ announced: boolean; asked: number }> {
  const own = { announced: verified, asked: 0 }
  const address = multiaddr('/ip4/9.9.9.9/tcp/4001')
  const connections = peers.map(({ host }, at) => ({
    remotePeer: `peer ${at}`,
    remoteAddr: multiaddr(`/ip4/${host}/tcp/4001`),
    status: 'open',
  }))
  const libp2p = Object.assign(new EventTarget(), {
    getConnections: () => connections,
    services: {
      inside: {
        transportManager: { getAddrs: () => [address] },
        addressManager: {
          getAddressesWithMetadata: () => [{ multiaddr: address, type: 'transport', verified, expires: -1 }],
          confirmObservedAddr: () => {
            own.announced = true
          },
          removeObservedAddr: () => {
            own.announced = false
          },
        },
      },
    },
  })
  const at = (peerId: unknown) => peers[Number(String(peerId).split(' ')[1])]!
  const proof = new AddressProof({
    libp2p: libp2p as unknown as Node,
    logger: silentLogger,
    book: { speaks: () => true } as unknown as PeerBook,
    clock: { now: () => 0 },
    dialBack: {
      ask: async (connection) => {
        own.asked += 1
        const { answers, breaks = 0, misses } = at(connection.remotePeer)
        if (misses !== undefined && own.asked <= misses.count) {
          if (misses.how === 'breaks off') throw new Error('Cannot write to a stream that is closing')
          return misses.how
        }
        if (own.asked > breaks) return answers
        connections.splice(0, 1, { ...connections[0]!, status: 'open' })
        connection.status = 'closed'
        throw new Error('the connection broke')
      },
    },
    isTrusted: (peerId) => at(peerId).isTrusted === true,
    routerIsAsked: () => false,
  })
  const ending = new AbortController()
  const running = proof.run({ ...timing, proofRetryMs }, ending.signal)
  const asked = peers.reduce((sum, { breaks = 0, misses }) => sum + breaks + (misses?.count ?? 0) + 1, 0)
  await expect.poll(() => own.asked).toBe(Math.min(8, asked))
  await new Promise((resolve) => setImmediate(resolve))
  ending.abort()
  await running
  return own
}

test('D52: an address is announced when peers of three networks have dialed it back, not of two, nor three of one', async () => {
  const arrived = (host: string) => ({ host, answers: 'arrived' as const })
  expect((await judged([arrived('1.1.1.1'), arrived('2.2.2.2')])).announced).toBe(false)
  expect((await judged([arrived('1.1.1.1'), arrived('1.1.2.2'), arrived('1.1.3.3')])).announced).toBe(false)
  expect((await judged([arrived('1.1.1.1'), arrived('2.2.2.2'), arrived('3.3.3.3')])).announced).toBe(true)
})

test('one peer that the operator named is enough, as its word is the operator’s own choice', async () => {
  expect((await judged([{ host: '1.1.1.1', answers: 'arrived', isTrusted: true }])).announced).toBe(true)
})

test('a peer whose connection breaks while it is asked is asked over the next one: a node that has moved has dead ones', async () => {
  const peer = { host: '1.1.1.1', answers: 'arrived' as const, isTrusted: true, breaks: 2 }
  expect(await judged([peer])).toEqual({ announced: true, asked: 3 })
})

test.each(['breaks off', 'refused', 'failed'] as const)(
  'a peer by which nothing was proved (%s) is asked again soon, over a connection that says it is open too',
  async (how) => {
    const peer = { host: '1.1.1.1', answers: 'arrived' as const, isTrusted: true, misses: { count: 3, how } }
    expect(await judged([peer], { proofRetryMs: 1 })).toEqual({ announced: true, asked: 4 })
  },
)

test('D52: what was proved is given up when peers of several networks fail to dial it, not by the word of one among others', async () => {
  const failed = (host: string) => ({ host, answers: 'failed' as const })
  const refused = (host: string) => ({ host, answers: 'refused' as const })
  const hosts = ['1.1.1.1', '2.2.2.2', '3.3.3.3']
  expect((await judged(hosts.map(failed), { verified: true })).announced).toBe(false)
  const one = [failed('1.1.1.1'), refused('2.2.2.2'), refused('3.3.3.3')]
  expect((await judged(one, { verified: true })).announced).toBe(true)
})
