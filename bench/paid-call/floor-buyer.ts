import { multiaddr } from '@multiformats/multiaddr'
import type { Frame } from '../../src/protocols/frame.ts'
import type { FramedStream } from '../../src/protocols/framed-stream.ts'
import { StreamPool } from '../../src/protocols/streams.ts'
import { type LoadPlan, runLoad } from '../load.ts'
import { servePart } from '../part.ts'
import { channelFrameOf, frameOf, hashAuthorization, hashLeaf, newCallId, readFrame } from './floor-call.ts'
import { createFloorHost, type Floor, floorNames, floors, STREAMS_MAX } from './floor-host.ts'
import { type FloorLog, keptCalls, openLog } from './floor-log.ts'
import { channelFrames, channelMessages, type FloorMessage, frames, messages } from './floor-messages.ts'
import { makeSignature, oncePerTurn, recoverSignature } from './floor-signatures.ts'
import { TASK } from './terms.ts'

const { signal } = new AbortController()
/** The buyer's records of a call: the signed payment before the buyer sends it, and the result. */
const kept = {
  reservation: JSON.stringify(messages['x402.paid_request'].payment),
  result: JSON.stringify(messages['x402.response']),
  charged: JSON.stringify(channelMessages['x402.response']),
  voucher: JSON.stringify(channelMessages['x402.request'].payment),
}
const recoverReceipts = oncePerTurn(recoverSignature)
const signVoucher = oncePerTurn(makeSignature)

/** The buyer's side of all floors. */
servePart(async ({ dataDir = '', seller = '', databaseUrl = '', transport = 'tcp' }) => {
  const log = await openLog(dataDir, databaseUrl)
  const host = await createFloorHost(transport)
  const connection = await host.dial(multiaddr(seller))
  const peer = { peerId: String(connection.remotePeer), addrs: [] }
  const open = (_peer: unknown, protocol: string) =>
    connection.newStream(protocol, { maxOutboundStreams: STREAMS_MAX, signal })
  const pool = (floor: Floor, reuse: boolean) => new StreamPool({ protocol: floors[floor], reuse }, { open })
  const both = (floor: Floor) => ({ on: pool(floor, true), off: pool(floor, false) })
  const pools = Object.fromEntries(floorNames.map((floor) => [floor, both(floor)])) as Record<
    Floor,
    ReturnType<typeof both>
  >

  async function call(floor: Floor, streams: StreamPool): Promise<void> {
    const { stream } = await streams.take(peer, signal)
    if (floor === 'A1' || floor === 'B1') {
      await ask(stream, channelFrames['x402.request'], 'x402.response')
      streams.give(peer, stream)
      if (floor === 'B1') await log.append(kept.charged)
      return
    }
    if (floor === 'D' || floor === 'D1') {
      await (floor === 'D' ? callWhole(stream, log) : callOnChannel(stream, log))
      streams.give(peer, stream)
      return
    }
    await ask(stream, frames['x402.request'], 'x402.payment_required')
    if (floor === 'C') makeSignature()
    if (floor !== 'A') await log.append(kept.reservation)
    await ask(stream, frames['x402.paid_request'], 'x402.response')
    streams.give(peer, stream)
    if (floor === 'C') await recoverReceipts()
    if (floor !== 'A') await log.append(kept.result)
  }

  return {
    ready: {},
    answer(question) {
      const { floor, reuse, ...plan } = question as LoadPlan & { floor: Floor; reuse: boolean }
      return runLoad(plan, () => call(floor, pools[floor][reuse ? 'on' : 'off']))
    },
    async stop() {
      await host.stop()
      await log.close()
    },
  }
})

/** Floor D. */
async function callWhole(stream: FramedStream, log: FloorLog): Promise<void> {
  const calls = keptCalls(log)
  const call = newCallId()
  const id = call.toString('hex')
  readFrame(await ask(stream, frameOf('x402.request', id, TASK), 'x402.payment_required'))
  hashAuthorization(id)
  makeSignature()
  await calls.beginCall(call, kept.reservation)
  const { text } = readFrame(await ask(stream, frameOf('x402.paid_request', id, TASK), 'x402.response'))
  await recoverReceipts()
  await calls.endCall(call, text)
}

/** Floor D1. The call is stored before it leaves: a buyer that forgets one would pay for it again. */
async function callOnChannel(stream: FramedStream, log: FloorLog): Promise<void> {
  const calls = keptCalls(log)
  const call = newCallId()
  const id = call.toString('hex')
  await calls.beginCall(call, kept.voucher)
  await signVoucher()
  const { text } = readFrame(await ask(stream, channelFrameOf('x402.request', id, TASK), 'x402.response'))
  hashLeaf(id)
  await recoverReceipts()
  await calls.endCall(call, text)
}

async function ask(stream: FramedStream, sent: Uint8Array, expected: FloorMessage): Promise<Frame> {
  await stream.writeRaw(sent, signal)
  const answer = await stream.read(signal)
  if (answer?.type !== expected) throw new Error(`expected ${expected}, got ${answer?.type ?? 'the end of the stream'}`)
  return answer
}
