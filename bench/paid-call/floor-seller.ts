import { randomBytes } from 'node:crypto'
import type { Stream } from '@libp2p/interface'
import { FramedStream } from '../../src/protocols/framed-stream.ts'
import { servePart } from '../part.ts'
import { channelFrameOf, frameOf, hashAuthorization, hashLeaf, readFrame } from './floor-call.ts'
import { createFloorHost, type Floor, floorNames, floors, STREAMS_MAX } from './floor-host.ts'
import { type FloorLog, keptCalls, openLog } from './floor-log.ts'
import { channelFrames, channelMessages, type FloorMessage, frames, messages } from './floor-messages.ts'
import { makeSignature, oncePerTurn, recoverSignature } from './floor-signatures.ts'

const { signal } = new AbortController()
/** The seller's records of a call: the payment at its claim, and the result when payment for it is owed. */
const kept = {
  claim: JSON.stringify(messages['x402.paid_request'].payment),
  result: JSON.stringify(messages['x402.response']),
  charged: JSON.stringify(channelMessages['x402.response']),
  voucher: JSON.stringify(channelMessages['x402.request'].payment),
}
const signReceipts = oncePerTurn(makeSignature)
const recoverVoucher = oncePerTurn(recoverSignature)

/** The seller's side of all floors. */
servePart(async ({ dataDir = '', databaseUrl = '', transport = 'tcp' }) => {
  const log = await openLog(dataDir, databaseUrl)
  const host = await createFloorHost(transport)
  for (const floor of floorNames) {
    const limits = { maxInboundStreams: STREAMS_MAX, maxOutboundStreams: STREAMS_MAX }
    await host.handle(floors[floor], (stream) => void serve(stream, floor, log), limits)
  }
  const stop = async () => {
    await host.stop()
    await log.close()
  }
  return { ready: { address: String(host.getMultiaddrs()[0]) }, stop }
})

async function serve(libp2pStream: Stream, floor: Floor, log: FloorLog): Promise<void> {
  const stream = new FramedStream(libp2pStream)
  for (;;) {
    const frame = await stream.read(signal).catch(() => undefined)
    if (frame === undefined) break
    const asks = (frame.type as FloorMessage) === 'x402.request'
    if (floor === 'D') await answerWhole(stream, { asks, ...readFrame(frame) }, log)
    else if (floor === 'D1') await answerOnChannel(stream, readFrame(frame), log)
    else if (floor === 'A1' || floor === 'B1') {
      if (floor === 'B1') await log.append(kept.charged)
      await stream.writeRaw(channelFrames['x402.response'], signal)
    } else if (asks) await stream.writeRaw(frames['x402.payment_required'], signal)
    else {
      if (floor === 'C') recoverSignature()
      if (floor !== 'A') await log.append(kept.claim)
      if (floor === 'C') await signReceipts()
      if (floor !== 'A') await log.append(kept.result)
      await stream.writeRaw(frames['x402.response'], signal)
    }
  }
  await stream.close().catch(() => {})
}

/** Floor D1. The result, its charge and the voucher are one row. */
async function answerOnChannel(stream: FramedStream, call: { id: string; text: string }, log: FloorLog): Promise<void> {
  const { id, text } = call
  await recoverVoucher()
  hashLeaf(id)
  await signReceipts()
  await keptCalls(log).keepCall(Buffer.from(id, 'hex'), kept.voucher, text)
  await stream.writeRaw(channelFrameOf('x402.response', id, text), signal)
}

/** Floor D. The settlement is noted after the answer: a seller that does not note it would settle again. */
async function answerWhole(
  stream: FramedStream,
  { asks, id, text }: { asks: boolean; id: string; text: string },
  log: FloorLog,
): Promise<void> {
  if (asks) return stream.writeRaw(frameOf('x402.payment_required', id, ''), signal)
  const calls = keptCalls(log)
  const call = Buffer.from(id, 'hex')
  hashAuthorization(id)
  recoverSignature()
  await calls.beginCall(call, kept.claim)
  await signReceipts()
  await calls.endCall(call, text)
  await stream.writeRaw(frameOf('x402.response', id, text), signal)
  void calls.settleCall(call, randomBytes(32))
}
