import type { Stream } from '@libp2p/interface'
import { FramedStream } from '../../src/protocols/framed-stream.ts'
import { servePart } from '../part.ts'
import { createFloorHost, type Floor, floors, STREAMS_MAX } from './floor-host.ts'
import { type FloorLog, openLog } from './floor-log.ts'
import { type FloorMessage, frames, messages } from './floor-messages.ts'
import { makeSignature, recoverSignature } from './floor-signatures.ts'

const { signal } = new AbortController()
/** The seller's records of a call: the payment at its claim, and the result when payment for it is owed. */
const kept = {
  claim: JSON.stringify(messages['x402.paid_request'].payment),
  result: JSON.stringify(messages['x402.response']),
}

/** The seller's side of all floors. */
servePart(async ({ dataDir = '', databaseUrl = '', transport = 'tcp' }) => {
  const log = await openLog(dataDir, databaseUrl)
  const host = await createFloorHost(transport)
  for (const floor of ['A', 'B', 'C'] as const) {
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
    if ((frame.type as FloorMessage) === 'x402.request') {
      await stream.writeRaw(frames['x402.payment_required'], signal)
      continue
    }
    if (floor === 'C') recoverSignature()
    if (floor !== 'A') await log.append(kept.claim)
    if (floor === 'C') makeSignature()
    if (floor !== 'A') await log.append(kept.result)
    await stream.writeRaw(frames['x402.response'], signal)
  }
  await stream.close().catch(() => {})
}
