import { randomBytes } from 'node:crypto'
import type { Connection, Stream } from '@libp2p/interface'
import { byteStream } from '@libp2p/utils'
import { orAborted } from '../lib/wait.ts'

export const PING_PROTOCOL = '/ipfs/ping/1.0.0'
const PING_BYTES = 32

/** Pings over a connection. Returns the round-trip time in ms. @throws the error of opening or using the stream */
export async function ping(connection: Connection, signal: AbortSignal): Promise<number> {
  const opening = connection.newStream(PING_PROTOCOL, { signal, runOnLimitedConnection: true })
  return await pingOn(await orAborted(opening, signal, (late) => late.abort(new Error('too late'))), signal)
}

/** Pings on a stream opened for this ping, and closes the stream. */
export async function pingOn(stream: Stream, signal: AbortSignal): Promise<number> {
  try {
    const bytes = byteStream(stream)
    const sentAt = performance.now()
    await bytes.write(randomBytes(PING_BYTES), { signal })
    await bytes.read({ bytes: PING_BYTES, signal })
    const latencyMs = Math.round((performance.now() - sentAt) * 10) / 10
    await stream.close({ signal })
    return latencyMs
  } catch (error) {
    stream.abort(error as Error)
    throw error
  }
}
