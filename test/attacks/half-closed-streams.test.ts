/** T7: a client that sends its request and the end of its side in one write, as Go clients do. */
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import type { StreamMuxer } from '@libp2p/interface'
import { noise } from '@libp2p/noise'
import { tcp } from '@libp2p/tcp'
import { yamux } from '@libp2p/yamux'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p, type Libp2p } from 'libp2p'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { MARKETPLACE_PROTOCOL } from '../../src/schema/marketplace.ts'
import { X402_PROTOCOL } from '../../src/schema/x402.ts'
import { marketplaceRequest, negotiation, startEchoSeller, x402Request } from '../support/bare-requests.ts'
import { expectBearable } from '../support/honest-calls.ts'
import { discover, startTestNode, stopTestNodes, type TestNode } from '../support/loopback-node.ts'
import { randomHex } from '../support/payments.ts'

/** More than the streams that a peer may have at a time (D36). */
const CALLS = 300

let seller: TestNode
let client: Libp2p
let path: Server
let agentId: string

beforeAll(async () => {
  ;({ seller, agentId } = await startEchoSeller())
  client = await createLibp2p({
    transports: [tcp()],
    connectionEncrypters: [noise()],
    streamMuxers: [yamux()],
  })
  path = await joiningPath(Number(/tcp\/(\d+)/.exec(seller.addresses().join(' '))![1]))
  const { port } = path.address() as AddressInfo
  await client.dial(multiaddr(`/ip4/127.0.0.1/tcp/${port}/p2p/${seller.peerId}`))
})
afterAll(async () => {
  await client?.stop()
  path?.close()
  await stopTestNodes()
})

/** Hands on what a client writes within a few milliseconds as one piece, as the kernel does with small writes. */
async function joiningPath(port: number): Promise<Server> {
  const server = createServer((inbound) => {
    const outbound = connect(port, '127.0.0.1')
    const pieces: Buffer[] = []
    inbound.on('data', (piece) => {
      if (pieces.push(piece as Buffer) > 1) return
      setTimeout(() => outbound.write(Buffer.concat(pieces.splice(0))), 30)
    })
    outbound.on('data', (piece) => inbound.write(piece))
    for (const [one, other] of [[inbound, outbound] as const, [outbound, inbound] as const]) {
      one.on('close', () => other.destroy())
      one.on('error', () => other.destroy())
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}

/** Sends a request and the end in one go, without waiting for the seller to agree to the protocol. Reads to the end. */
async function callToTheEnd(protocol: string, frame: Uint8Array): Promise<Uint8Array> {
  const [connection] = client.getConnections() as unknown as { muxer: StreamMuxer }[]
  const stream = await connection!.muxer.createStream()
  const ended = new Promise<void>((resolve, reject) => {
    stream.addEventListener('end', () => resolve())
    stream.addEventListener('close', ({ error }) => (error === undefined ? resolve() : reject(error)))
  })
  const chunks: Uint8Array[] = []
  stream.addEventListener(
    'message',
    ({ data }) => void chunks.push(data instanceof Uint8Array ? data : data.subarray()),
  )
  stream.send(Buffer.concat([negotiation(protocol), frame]))
  await stream.close({ signal: AbortSignal.timeout(60_000) })
  await within(60_000, ended)
  return Buffer.concat(chunks).subarray(negotiation(protocol).length)
}

/** Makes all calls, ten at a time. */
async function inBatches(call: (index: number) => Promise<void>): Promise<void> {
  for (let first = 0; first < CALLS; first += 10) {
    await Promise.all(Array.from({ length: 10 }, (_, index) => call(first + index)))
  }
}

function within(limitMs: number, ended: Promise<void>): Promise<void> {
  const late = new Promise<never>((_resolve, reject) =>
    setTimeout(() => reject(new Error('the server did not end its side')), limitMs).unref(),
  )
  return Promise.race([ended, late])
}

test('T7, D23: the free protocol ends its side after the answer, for more calls than a peer has streams', async () => {
  await inBatches(async (call) => {
    const request = marketplaceRequest(agentId, `hello ${call}`)
    const answer = Buffer.from(await callToTheEnd(MARKETPLACE_PROTOCOL, request))
    expect(JSON.parse(answer.subarray(4).toString())).toMatchObject({ output: `hello ${call}` })
  })
})

test('T7, D23: so does the payment protocol, and no stream stays open', async () => {
  await inBatches(async () => {
    const answer = await callToTheEnd(X402_PROTOCOL, x402Request(agentId, 'hello'))
    expect(Buffer.from(answer).toString()).toContain('x402.response')
  })
})

test('T7: endless calls of this kind leave the calls of an honest buyer as quick as before', { retry: 2 }, async () => {
  const buyer = await startTestNode({ key: randomHex(), bootstrap: [seller.addresses()[0]!] })
  const { id } = await discover(buyer, seller.peerId, 'echo')
  const call = () => buyer.execute({ agentId: id, input: 'hello', signal: AbortSignal.timeout(60_000) })
  await expectBearable(call, () =>
    inBatches(async () => {
      const request = marketplaceRequest(agentId, 'hello')
      await callToTheEnd(MARKETPLACE_PROTOCOL, request)
    }),
  )
})
