/** T7: a client over QUIC that ends both of its sides once it has its answer, as Go clients do with `Close`. */
import { quic } from '@chainsafe/libp2p-quic'
import type { Transport } from '@libp2p/interface'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p, type Libp2p } from 'libp2p'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { MARKETPLACE_PROTOCOL } from '../../src/schema/marketplace.ts'
import { X402_PROTOCOL } from '../../src/schema/x402.ts'
import { marketplaceRequest, negotiation, startEchoSeller, x402Request } from '../support/bare-requests.ts'
import { expectBearable } from '../support/honest-calls.ts'
import { discover, startTestNode, stopTestNodes, type TestNode } from '../support/loopback-node.ts'
import { randomHex } from '../support/payments.ts'

/** More than the streams that the QUIC module grants a peer at a time. */
const CALLS = 600

type NativeStream = {
  read(bytes: number): Promise<Uint8Array | null>
  write(data: Uint8Array): Promise<void>
  finishWrite(): Promise<void>
  stopRead(): Promise<void>
}
type NativeConnection = { outboundStream(): Promise<NativeStream> }

let seller: TestNode
let client: Libp2p
let connection: NativeConnection
let agentId: string
/** Kept, so that no stream of the client's is ended by the collection of its object. */
const streams: NativeStream[] = []

beforeAll(async () => {
  ;({ seller, agentId } = await startEchoSeller())
  client = await createLibp2p({ transports: [(components) => tapped(quic()(components))] })
  await client.dial(multiaddr(seller.addresses().find((address) => address.includes('/quic-v1'))!))
})
afterAll(async () => {
  await client?.stop()
  await stopTestNodes()
})

/** Notes the native connection: libp2p's own streams have no way to say that they want no more (STOP_SENDING). */
function tapped(transport: Transport): Transport {
  const dial = transport.dial.bind(transport)
  transport.dial = (address, options) => {
    const { upgrader } = options
    const upgradeOutbound: typeof upgrader.upgradeOutbound = (raw, upgrade) => {
      connection = (upgrade.muxerFactory as unknown as { init: { connection: NativeConnection } }).init.connection
      return upgrader.upgradeOutbound(raw, upgrade)
    }
    return dial(address, { ...options, upgrader: Object.assign(Object.create(upgrader), { upgradeOutbound }) })
  }
  return transport
}

/** Asks, reads until the answer is there, then says at once that it wants no more and that it has said all. */
async function callAndClose(protocol: string, frame: Uint8Array, last: string): Promise<void> {
  const stream = await connection.outboundStream()
  streams.push(stream)
  await stream.write(Buffer.concat([negotiation(protocol), frame]))
  let answer = ''
  while (!answer.includes(last)) {
    const chunk = await stream.read(4096)
    if (chunk === null) throw new Error(`the seller ended after: ${answer}`)
    answer += Buffer.from(chunk).toString()
  }
  await Promise.all([stream.stopRead(), stream.finishWrite()])
}

/** Makes all calls, one after the other, each within a time in which nothing is collected. */
async function callOften(call: (index: number) => Promise<void>): Promise<void> {
  for (let index = 0; index < CALLS; index++) {
    const late = new Promise<never>((_resolve, reject) =>
      setTimeout(() => reject(new Error(`call ${index} got no stream or no answer`)), 10_000).unref(),
    )
    await Promise.race([call(index), late])
  }
}

test('T7, D23: the free protocol gives back the streams of a QUIC client that closes both sides', async () => {
  await callOften((call) => {
    return callAndClose(MARKETPLACE_PROTOCOL, marketplaceRequest(agentId, `hello ${call}.`), `hello ${call}.`)
  })
})

test('T7, D23: so does the payment protocol', async () => {
  await callOften(() => {
    return callAndClose(X402_PROTOCOL, x402Request(agentId, 'hello'), Buffer.from('hello').toString('base64'))
  })
  expect(streams).toHaveLength(2 * CALLS)
})

test('T7: endless calls of this kind leave the calls of an honest buyer as quick as before', { retry: 2 }, async () => {
  const buyer = await startTestNode({ key: randomHex(), bootstrap: [seller.addresses()[0]!] })
  const { id } = await discover(buyer, seller.peerId, 'echo')
  const call = () => buyer.execute({ agentId: id, input: 'hello', signal: AbortSignal.timeout(60_000) })
  await expectBearable(call, () =>
    callOften((index) => {
      const request = marketplaceRequest(agentId, `hello ${index}.`)
      return callAndClose(MARKETPLACE_PROTOCOL, request, `hello ${index}.`)
    }),
  )
})
