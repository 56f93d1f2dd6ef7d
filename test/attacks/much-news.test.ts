/** T28: a flood that an honest neighbor passes on costs that neighbor nothing, and its news still arrive. */
import { type GossipSub, gossipsub, StrictSign } from '@libp2p/gossipsub'
import { identify } from '@libp2p/identify'
import { noise } from '@libp2p/noise'
import { tcp } from '@libp2p/tcp'
import { yamux } from '@libp2p/yamux'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p } from 'libp2p'
import { afterEach, expect, test, vi } from 'vitest'
import { startTestHost, whereIs } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const TOPIC = 'test/topic'
const NEWS = 200
/** Nearly as long as a message may be. */
const NEWS_LENGTH = 60_000

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

type Sends = GossipSub & {
  sendRpc(to: string, transmission: object): boolean
  mcache: { history: { msgId: Uint8Array }[][] }
}

/** A neighbor of another make: libp2p as it comes. */
async function startNeighbor() {
  const neighbor = await createLibp2p({
    addresses: { listen: ['/ip4/127.0.0.1/tcp/0'] },
    transports: [tcp()],
    streamMuxers: [yamux()],
    connectionEncrypters: [noise()],
    services: {
      identify: identify(),
      pubsub: gossipsub({ globalSignaturePolicy: StrictSign, allowPublishToZeroTopicPeers: true }),
    },
  })
  cleanups.push(() => neighbor.stop())
  return { neighbor, pubsub: neighbor.services.pubsub as unknown as Sends }
}

test('T28 a neighbor that announces two hundred large messages at once is asked for all of them and sends them', async () => {
  const host = await startTestHost()
  cleanups.push(() => host.stop())
  const received = new Set<number>()
  host.subscribe(TOPIC, async (data) => {
    received.add(Number.parseInt(Buffer.from(data).toString(), 10))
    return 'accept'
  })
  const { neighbor, pubsub } = await startNeighbor()
  pubsub.subscribe(TOPIC)
  await neighbor.dial(multiaddr(whereIs(host, 'tcp').addrs[0]!))
  await until(() => pubsub.getSubscribers(TOPIC).length === 1)

  // The messages themselves are lost on their way, as where a mesh breaks.
  const lost = vi.spyOn(pubsub, 'sendRpc').mockReturnValue(true)
  for (let n = 0; n < NEWS; n++) await pubsub.publish(TOPIC, Buffer.from(`${n} ${'news '.repeat(NEWS_LENGTH / 5)}`))
  lost.mockRestore()
  const messageIDs = pubsub.mcache.history.flat().map(({ msgId }) => msgId)
  expect(messageIDs).toHaveLength(NEWS)

  const tell = () =>
    pubsub.sendRpc(host.peerId, {
      subscriptions: [],
      messages: [],
      control: { ihave: [{ topicID: TOPIC, messageIDs }], iwant: [], graft: [], prune: [], idontwant: [] },
    })
  // As its heartbeat says it again.
  for (let before = 0; before < NEWS; before = received.size) {
    tell()
    await until(() => received.size >= Math.min(before + 32, NEWS))
  }
})
