import { generateKeyPair } from '@libp2p/crypto/keys'
import type { PeerId } from '@libp2p/interface'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { expect, test } from 'vitest'
import { Pace } from '../lib/pace.ts'
import { guardGossip, type Received } from './gossip-guard.ts'

const stranger = async () => peerIdFromPrivateKey(await generateKeyPair('Ed25519'))

/** A service that notes of each transmission how many messages it was left to check. */
function guarded(siteOf: (peer: PeerId) => string | undefined = () => undefined) {
  const checked: number[] = []
  const service: Received = {
    handleReceivedRpc: async (_, { messages }) => void checked.push(messages.length),
  }
  guardGossip(service, { pace: new Pace(), isWanted: (topic) => topic === 'wanted', siteOf })
  const send = (from: PeerId, count: number, topic = 'wanted') =>
    service.handleReceivedRpc(from, { messages: Array.from({ length: count }, () => ({ topic })) })
  return { checked, send }
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
