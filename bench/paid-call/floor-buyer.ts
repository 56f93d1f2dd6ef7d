import { multiaddr } from '@multiformats/multiaddr'
import type { FramedStream } from '../../src/protocols/framed-stream.ts'
import { StreamPool } from '../../src/protocols/streams.ts'
import { type LoadPlan, runLoad } from '../load.ts'
import { servePart } from '../part.ts'
import { createFloorHost, type Floor, floors, STREAMS_MAX } from './floor-host.ts'
import { openLog } from './floor-log.ts'
import { type FloorMessage, frames, messages } from './floor-messages.ts'
import { makeSignature, recoverSignature } from './floor-signatures.ts'

const { signal } = new AbortController()
/** The buyer's records of a call: the signed payment before the buyer sends it, and the result. */
const kept = {
  reservation: JSON.stringify(messages['x402.paid_request'].payment),
  result: JSON.stringify(messages['x402.response']),
}

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
  const pools = { A: both('A'), B: both('B'), C: both('C') }

  async function call(floor: Floor, streams: StreamPool): Promise<void> {
    const { stream } = await streams.take(peer, signal)
    await ask(stream, 'x402.request', 'x402.payment_required')
    if (floor === 'C') makeSignature()
    if (floor !== 'A') await log.append(kept.reservation)
    await ask(stream, 'x402.paid_request', 'x402.response')
    streams.give(peer, stream)
    if (floor === 'C') recoverSignature()
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

async function ask(stream: FramedStream, sent: FloorMessage, expected: FloorMessage): Promise<void> {
  await stream.writeRaw(frames[sent], signal)
  const answer = await stream.read(signal)
  if (answer?.type !== expected) throw new Error(`expected ${expected}, got ${answer?.type ?? 'the end of the stream'}`)
}
