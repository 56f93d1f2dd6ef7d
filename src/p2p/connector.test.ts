import type { Connection, Stream } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { expect, test, vi } from 'vitest'
import { Connector } from './connector.ts'

const own = '12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN'
const seller = '12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5'
const other = '12D3KooWHoSyTgntm77sXShoeX9uNkqKNMhHxKtskaHqnA54SrSG'
const listed = '/ip4/9.9.9.9/tcp/4001'
const remembered = '/ip4/9.9.9.9/tcp/4002'
const moved = '/ip4/9.9.9.9/tcp/4003'
const PROTOCOL = '/test/1.0.0'
const timing = { staggerMs: 1, attemptMs: 1000, stalledMs: 100, openMs: 400 }
const never = new AbortController().signal

function streamOf(fields: Partial<Stream> = {}): Stream {
  return { status: 'open', abort: vi.fn(), ...fields } as unknown as Stream
}

function connectionWith(peerId: string, newStream: () => Promise<Stream> = async () => streamOf()): Connection {
  const remotePeer = peerIdFromString(peerId)
  return {
    remotePeer,
    remoteAddr: multiaddr(listed),
    status: 'open',
    newStream,
    abort: vi.fn(),
  } as unknown as Connection
}

/** A connector on a network where `answers` says who is at an address. */
function connector(
  answers: Record<string, Connection>,
  {
    speakingDht = 1,
    existing = [] as Connection[],
    relays = [] as Connection[],
    mayBeRelayed = false,
    forbidden = [] as string[],
    random = (): number => 0,
  } = {},
) {
  const dialed: string[] = []
  const findPeer = vi.fn(async () => ({
    id: peerIdFromString(seller),
    multiaddrs: [multiaddr(listed), multiaddr(moved)],
  }))
  const dial = async (address: Multiaddr) => {
    const place = address.toString().replace(/\/p2p\/.*/, '')
    dialed.push(place)
    const connection = answers[place]
    if (connection === undefined) throw new Error('connection refused')
    return connection
  }
  const known = { addresses: [{ multiaddr: multiaddr(remembered), isCertified: true }] }
  const deps = {
    libp2p: {
      peerId: peerIdFromString(own),
      peerStore: { get: async () => known, merge: async () => {} },
      peerRouting: { findPeer },
      services: { inside: { transportManager: { dial, getAddrs: () => [] } } },
    },
    book: {
      connections: () => existing,
      relayed: () => relays,
      countSpeaking: () => speakingDht,
      addressesAt: ({ remoteAddr }: Connection) => [remoteAddr],
    },
    mayBeRelayed: () => mayBeRelayed,
    listed: { mayDial: (_peerId: string, address: Multiaddr) => !forbidden.includes(address.toString()) },
    isSelf: (peerId: string) => peerId === own,
    random,
    clock: { now: () => 0 },
  }
  return {
    connector: new Connector(timing, deps as unknown as ConstructorParameters<typeof Connector>[1]),
    dialed,
    findPeer,
  }
}

const unreachable = { code: 'PEER_UNREACHABLE' }
const destination = { peerId: seller, addrs: [listed] }

test('given and remembered addresses are dialed before anybody is asked', async () => {
  const { connector: reach, dialed, findPeer } = connector({ [remembered]: connectionWith(seller) })
  await reach.openStream(destination, PROTOCOL, never)
  expect(dialed).toEqual([listed, remembered])
  expect(findPeer).not.toHaveBeenCalled()
})

test('buyers begin at different addresses of a seller, and at those of lower rank later, as before', async () => {
  const [second, quic] = ['/ip4/8.8.8.8/tcp/1', '/ip4/9.9.9.9/udp/1/quic-v1']
  const begin = async (random: () => number) => {
    const { connector: reach, dialed } = connector({ [remembered]: connectionWith(seller) }, { random })
    await reach.openStream({ peerId: seller, addrs: [listed, second, quic] }, PROTOCOL, never)
    return dialed
  }
  expect(await begin(() => 0.4)).toEqual([listed, second, remembered])
  expect(await begin(() => 0.9)).toEqual([second, listed, remembered])
})

test('another process of a seller is asked instead of the one that refused a stream, over its own connection', async () => {
  const second = '/ip4/8.8.8.8/tcp/1'
  const [refusing, taking] = [connectionWith(seller), { ...connectionWith(seller), remoteAddr: multiaddr(second) }]
  const existing = [refusing]
  const { connector: reach, dialed, findPeer } = connector({ [second]: taking as Connection }, { existing })
  const both = { peerId: seller, addrs: [listed, second] }
  const refused = await reach.openStream(both, PROTOCOL, never)
  await reach.openStream(both, PROTOCOL, never, { instead: refused })
  expect(dialed).toEqual([second])
  existing.push(taking as Connection)
  await reach.openStream(both, PROTOCOL, never, { instead: refused })
  expect(dialed).toEqual([second])
  // An agent that the second does not sell is asked for at the first.
  const alone = vi.spyOn(refusing, 'newStream')
  await reach.openStream(destination, PROTOCOL, never)
  expect(alone).toHaveBeenCalledOnce()
  expect(findPeer).not.toHaveBeenCalled()
})

test.each<[string, () => Promise<Stream>]>([
  ['ends a stream at once', async () => streamOf({ status: 'reset' })],
  ['resets it before both agree on a protocol', () => Promise.reject(new Error('the stream was reset'))],
])('another process of a seller is asked where the first %s', async (_what, refuse) => {
  const second = '/ip4/8.8.8.8/tcp/1'
  const taking = { ...connectionWith(seller), remoteAddr: multiaddr(second) } as Connection
  const both = { peerId: seller, addrs: [listed, second] }
  for (const existing of [[connectionWith(seller, refuse)], []]) {
    const answers = { [listed]: connectionWith(seller, refuse), [second]: taking }
    const { connector: reach, dialed, findPeer } = connector(answers, { existing })
    await expect(reach.openStream(both, PROTOCOL, never)).resolves.toBeDefined()
    expect([dialed.at(-1), findPeer.mock.calls]).toEqual([second, []])
    // One that is connected already is asked without a dial.
    existing.push(taking)
  }
})

test('what both processes of a seller refuse ends with the word of the first, and with few dials', async () => {
  const second = '/ip4/8.8.8.8/tcp/1'
  const refuse = () => Promise.reject(new Error('the stream was reset'))
  const existing = [connectionWith(seller, refuse)]
  const other = { ...connectionWith(seller, () => Promise.reject(new Error('full'))), remoteAddr: multiaddr(second) }
  const { connector: reach, dialed } = connector({ [second]: other as Connection }, { existing })
  const opening = reach.openStream({ peerId: seller, addrs: [listed, second] }, PROTOCOL, never)
  await expect(opening).rejects.toMatchObject({ ...unreachable, message: expect.stringContaining('was reset') })
  expect(dialed).toEqual([second])
})

test('the own limit of streams is no refusal of the peer', async () => {
  const second = '/ip4/8.8.8.8/tcp/1'
  const refuse = () => Promise.reject(named('TooManyOutboundProtocolStreamsError'))
  const answers = { [second]: connectionWith(seller) }
  const { connector: reach, dialed } = connector(answers, { existing: [connectionWith(seller, refuse)] })
  await expect(reach.openStream({ peerId: seller, addrs: [listed, second] }, PROTOCOL, never)).rejects.toBeDefined()
  expect(dialed).toEqual([])
})

test('a process that starts, or is older, speaks less than the others of its seller: another one is asked', async () => {
  const second = '/ip4/8.8.8.8/tcp/1'
  const refuse = () => Promise.reject(named('UnsupportedProtocolError'))
  const existing = [connectionWith(seller, refuse)]
  const { connector: reach, dialed } = connector({ [second]: connectionWith(seller) }, { existing })
  await reach.openStream({ peerId: seller, addrs: [listed, second] }, PROTOCOL, never)
  expect(dialed).toEqual([second])
  const none = connector({ [second]: connectionWith(seller, refuse) }, { existing })
  const opening = none.connector.openStream({ peerId: seller, addrs: [listed, second] }, PROTOCOL, never)
  await expect(opening).rejects.toMatchObject({ code: 'PROTOCOL_UNSUPPORTED' })
})

test('a seller with one process is not asked again by another way after it refused', async () => {
  const existing = [connectionWith(seller)]
  const { connector: reach, dialed, findPeer } = connector({}, { existing })
  const refused = await reach.openStream(destination, PROTOCOL, never)
  const again = reach.openStream(destination, PROTOCOL, never, { instead: refused })
  await expect(again).rejects.toMatchObject(unreachable)
  expect([dialed, findPeer.mock.calls]).toEqual([[remembered], []])
})

test('a peer that has moved is looked up in the DHT, despite the address that this node remembers', async () => {
  const { connector: reach, dialed, findPeer } = connector({ [moved]: connectionWith(seller) })
  await reach.openStream(destination, PROTOCOL, never)
  expect(dialed).toEqual([listed, remembered, moved])
  expect(findPeer).toHaveBeenCalledWith(expect.anything(), expect.objectContaining({ useCache: false }))
})

test('a dial fails at once if there is nobody to ask', async () => {
  const { connector: reach, findPeer } = connector({}, { speakingDht: 0 })
  await expect(reach.openStream(destination, PROTOCOL, never)).rejects.toMatchObject(unreachable)
  expect(findPeer).not.toHaveBeenCalled()
})

test('a seller with addresses that may not be dialed: the error says which setting allows it', async () => {
  const here = '/ip4/192.168.0.7/tcp/4001'
  const forbidden = [here, remembered].map((address) => `${address}/p2p/${seller}`)
  const { connector: reach, dialed } = connector({}, { speakingDht: 0, forbidden })
  await expect(reach.openStream({ peerId: seller, addrs: [here] }, PROTOCOL, never)).rejects.toMatchObject({
    code: 'PEER_UNREACHABLE',
    message: expect.stringContaining('NODE_DIAL_PRIVATE=true'),
  })
  expect(dialed).toEqual([])
})

test('a peer that connects while it is dialed is reached over that connection', async () => {
  const existing: Connection[] = []
  const back = connectionWith(seller)
  const refusing = {
    get [listed](): Connection {
      existing.push(back)
      throw new Error('connection refused')
    },
  }
  const { connector: reach, findPeer } = connector(refusing, { existing })
  await expect(reach.openStream(destination, PROTOCOL, never)).resolves.toBeDefined()
  expect(findPeer).not.toHaveBeenCalled()
})

test('T9: a connection that proves another peer is dropped, whatever the transport thinks of it', async () => {
  const impostor = connectionWith(other)
  const { connector: reach } = connector({ [listed]: impostor }, { speakingDht: 0 })
  await expect(reach.openStream(destination, PROTOCOL, never)).rejects.toMatchObject(unreachable)
  expect(impostor.abort).toHaveBeenCalled()
})

test('a stream that opens after the signal is closed again', async () => {
  const { promise, resolve } = Promise.withResolvers<Stream>()
  const { connector: reach } = connector({}, { existing: [connectionWith(seller, () => promise)] })
  const controller = new AbortController()
  const opening = reach.openStream(destination, PROTOCOL, controller.signal)
  controller.abort(new Error('enough'))
  await expect(opening).rejects.toMatchObject({ ...unreachable, message: expect.stringContaining('enough') })
  const late = streamOf()
  resolve(late)
  await vi.waitFor(() => expect(late.abort).toHaveBeenCalled(), 30_000)
})

test('a stream that the peer has already reset is an error, not a stream', async () => {
  const existing = [connectionWith(seller, async () => streamOf({ status: 'reset' }))]
  const { connector: reach, dialed } = connector({ [listed]: connectionWith(seller) }, { existing })
  const opening = reach.openStream(destination, PROTOCOL, never)
  await expect(opening).rejects.toMatchObject({
    ...unreachable,
    message: expect.stringMatching(/the peer closed the stream at once$/),
  })
  expect(dialed).toEqual([])
})

test('a peer that is slow over several connections gets no further connection', async () => {
  const { promise, resolve } = Promise.withResolvers<Stream>()
  const slow = () => connectionWith(seller, () => promise)
  const { connector: reach, dialed } = connector(
    { [listed]: connectionWith(seller) },
    { existing: [slow(), slow(), slow()] },
  )
  const opening = reach.openStream(destination, PROTOCOL, never)
  await new Promise((after) => setTimeout(after, timing.stalledMs * 1.5))
  expect(dialed).toEqual([])
  const late = streamOf()
  resolve(late)
  expect(await opening).toBe(late)
})

test.each([
  ['over a new connection', 0],
  ['over several connections', 3],
])('T7: a peer that never agrees on a protocol is given up, %s', async (_what, count) => {
  const silent = () => connectionWith(seller, () => new Promise<Stream>(() => {}))
  const existing = Array.from({ length: count }, silent)
  const { connector: reach } = connector({ [listed]: silent() }, { existing, speakingDht: 0 })
  await expect(reach.openStream(destination, PROTOCOL, never)).rejects.toMatchObject({
    ...unreachable,
    message: expect.stringContaining('no answer in time'),
  })
})

test('a process of a peer is found where it answered, although another one has named other addresses since', async () => {
  const answers: Record<string, Connection> = { [listed]: connectionWith(seller) }
  const { connector: reach, dialed } = connector(answers, { speakingDht: 0 })
  await reach.openStream(destination, PROTOCOL, never)
  // The peer store has only `remembered` now, whose process ends.
  await expect(reach.openStream({ peerId: seller, addrs: [] }, PROTOCOL, never)).resolves.toBeDefined()
  expect(dialed.at(-1)).toBe(listed)
})

test('no identity of this node is dialed, at any address', async () => {
  const { connector: reach, dialed } = connector({ [listed]: connectionWith(own) })
  const opening = reach.openStream({ peerId: own, addrs: [listed] }, PROTOCOL, never)
  await expect(opening).rejects.toMatchObject(unreachable)
  expect(dialed).toEqual([])
})

function named(name: string): Error {
  return Object.assign(new Error('no'), { name })
}
