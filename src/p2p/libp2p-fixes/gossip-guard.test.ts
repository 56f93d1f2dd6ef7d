import { generateKeyPair } from '@libp2p/crypto/keys'
import type { PeerId } from '@libp2p/interface'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { expect, test } from 'vitest'
import { Pace } from '../../lib/pace.ts'
import { type GossipInternals, guardGossip } from './gossip-guard.ts'

const stranger = async () => peerIdFromPrivateKey(await generateKeyPair('Ed25519'))

/** A service that notes of each transmission how many messages it was left to check. */
function guarded(siteOf: (peer: PeerId) => string | undefined = () => undefined) {
  const checked: number[] = []
  const promises = new Map<string, Map<string, unknown>>()
  const outcasts = new Set<string>()
  const service: GossipInternals = {
    handleReceivedRpc: async (_, { messages }) => void checked.push(messages.length),
    handleIHave: (_, said) => (said.length === 0 ? [] : [{ messageIDs: said as Uint8Array[] }]),
    acceptFrom: (peer) => !outcasts.has(peer),
    gossipTracer: { promises },
  }
  guardGossip(service, { pace: new Pace(), isWanted: (topic) => topic === 'wanted', siteOf })
  const send = (from: PeerId, count: number, topic = 'wanted') =>
    service.handleReceivedRpc(from, { messages: Array.from({ length: count }, () => ({ topic })) })
  const askFor = (from: PeerId, said: number) =>
    service.handleIHave(from.toString(), Array(said).fill(Uint8Array.of(1)))[0]?.messageIDs?.length ?? 0
  return { checked, send, askFor, promises, outcasts }
}

test('T7 messages on topics that nobody here listens to are dropped before their signatures are checked', async () => {
  const { checked, send } = guarded()
  await send(await stranger(), 60, 'unwanted')
  await send(await stranger(), 60)
  // What else is in the transmission is heard.
  expect(checked).toEqual([0, 60])
})

test('T7 a peer hands over a market’s worth of messages at once, and then only so many a second', async () => {
  const { checked, send } = guarded()
  const [flooder, neighbor] = [await stranger(), await stranger()]
  for (let n = 0; n < 40; n++) await send(flooder, 64)
  await send(neighbor, 64)
  expect(checked.slice(0, 16)).toEqual(Array(16).fill(64))
  expect(checked.filter((count) => count > 0).length).toBeLessThan(20)
  expect(checked.at(-1)).toBe(64)
})

test('T29 the identities of one address share what an address hands over', async () => {
  const sites = new Map<PeerId, string>()
  const { checked, send } = guarded((peer) => sites.get(peer))
  for (let n = 0; n < 100; n++) {
    const peer = await stranger()
    sites.set(peer, '192.0.2.1')
    await send(peer, 64)
  }
  expect(checked.filter((count) => count > 0).length).toBeGreaterThanOrEqual(64)
  expect(checked.filter((count) => count > 0).length).toBeLessThan(80)
})

test('T28 a neighbor is asked for no more messages than one transmission may hold, and none beyond its share', async () => {
  const { send, askFor } = guarded()
  const neighbor = await stranger()
  expect([askFor(neighbor, 0), askFor(neighbor, 10), askFor(neighbor, 5000)]).toEqual([0, 10, 32])
  for (let n = 0; n < 16; n++) await send(neighbor, 64)
  expect(askFor(neighbor, 5000)).toBeLessThan(8)
})

test('T28 what is dropped unread is held against nobody: its sender has kept its promise', async () => {
  const { send, promises } = guarded()
  const [neighbor, other] = [await stranger(), await stranger()]
  for (let n = 0; n < 16; n++) await send(neighbor, 64)
  const promised = new Map([neighbor, other].map((peer) => [peer.toString(), 0]))
  promises.set('a message', promised)
  await send(neighbor, 64)
  expect([...promised.keys()]).toEqual([other.toString()])
})

test('T29 a peer that nothing is taken from uses up nothing of what its address may hand over', async () => {
  const { checked, send, outcasts } = guarded(() => '192.0.2.1')
  for (let n = 0; n < 100; n++) {
    const outcast = await stranger()
    outcasts.add(outcast.toString())
    await send(outcast, 64)
  }
  await send(await stranger(), 64)
  expect(checked.at(-1)).toBe(64)
  expect(checked.slice(0, -1)).toEqual(Array(100).fill(0))
})
