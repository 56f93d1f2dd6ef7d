import { randomBytes } from 'node:crypto'
import type { Connection, Stream } from '@libp2p/interface'
import { lpStream } from '@libp2p/utils'
import type { Multiaddr } from '@multiformats/multiaddr'
import { systemClock } from '../../lib/clock.ts'
import { orAborted } from '../../lib/wait.ts'
import type { Node } from '../modules.ts'
import {
  DIAL_BACK_BYTES_MAX,
  DIAL_BACK_TAKEN,
  decodeDialAnswer,
  decodeNonce,
  encodeDialData,
  encodeDialRequest,
} from './dial-back-message.ts'

/** The protocol of peers that dial an address back to check whether it leads here (AutoNAT v2). */
export const DIAL_REQUEST_PROTOCOL = '/libp2p/autonat/2/dial-request'
const DIAL_BACK_PROTOCOL = '/libp2p/autonat/2/dial-back'
const ANSWER_MS_MAX = 30_000
/** The dial-back may arrive this long after the answer. */
const LATE_MS = 1000
const DATA_BYTES_MAX = 100 * 1024
const CHUNK_BYTES = 4096
const ASKED_MAX = 64

/**
 * `arrived`: the peer reached this node with the nonce. `failed`: the peer dialed without reaching this node.
 * `refused`: the peer did not dial.
 */
export type DialedBack = 'arrived' | 'failed' | 'refused'

type DialBackRequest = { askedBy: Connection; at: number; arrived(): void }

/**
 * Asks peers to dial addresses of this node. Only an arriving nonce counts (D52). It must come over a direct connection
 * that the other side opened after it was asked. The peer's own report proves nothing, although the library believes
 * it.
 */
export class DialBack {
  readonly #asked = new Map<bigint, DialBackRequest>()

  async start(libp2p: Node): Promise<void> {
    await libp2p.handle(DIAL_BACK_PROTOCOL, (stream, connection) => void this.#take(stream, connection), {
      maxInboundStreams: 2,
    })
  }

  /** Asks a peer. @throws an error if the peer's answer is wrong or missing */
  async ask(connection: Connection, address: Multiaddr, stopping: AbortSignal): Promise<DialedBack> {
    if (this.#asked.size >= ASKED_MAX) return 'refused'
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(ANSWER_MS_MAX)])
    const nonce = randomBytes(8).readBigUInt64LE()
    const { promise: arrival, resolve: arrived } = Promise.withResolvers<void>()
    this.#asked.set(nonce, { askedBy: connection, at: systemClock.now(), arrived })
    const opening = connection.newStream(DIAL_REQUEST_PROTOCOL, { signal })
    try {
      const stream = await orAborted(opening, signal, (late) => late.abort(new Error('too late')))
      const tried = await this.#exchange(stream, encodeDialRequest(address, nonce), signal)
      const late = AbortSignal.timeout(LATE_MS)
      return await orAborted(
        arrival.then(() => 'arrived' as const),
        late,
      ).catch(() => (tried ? 'failed' : 'refused'))
    } finally {
      this.#asked.delete(nonce)
    }
  }

  /** @returns whether the peer says that it dialed */
  async #exchange(stream: Stream, request: Uint8Array, signal: AbortSignal): Promise<boolean> {
    const wire = lpStream(stream, { maxDataLength: DIAL_BACK_BYTES_MAX })
    try {
      await wire.write(request, { signal })
      let answer = decodeDialAnswer((await wire.read({ signal })).subarray())
      if (answer.type === 'data') {
        if (answer.bytes > DATA_BYTES_MAX) return false
        for (let sent = 0; sent < answer.bytes; sent += CHUNK_BYTES) {
          await wire.write(encodeDialData(Math.min(CHUNK_BYTES, answer.bytes - sent)), { signal })
        }
        answer = decodeDialAnswer((await wire.read({ signal })).subarray())
      }
      await stream.close({ signal })
      return answer.type === 'result' && answer.tried
    } catch (error) {
      stream.abort(error as Error)
      throw error
    }
  }

  async #take(stream: Stream, connection: Connection): Promise<void> {
    const signal = AbortSignal.timeout(LATE_MS)
    try {
      const wire = lpStream(stream, { maxDataLength: DIAL_BACK_BYTES_MAX })
      const asked = this.#asked.get(decodeNonce((await wire.read({ signal })).subarray()))
      if (asked === undefined) throw new Error('nobody was asked with this nonce')
      const isNew = connection.direction === 'inbound' && connection.id !== asked.askedBy.id
      // A relayed connection, or one that was open already, proves nothing about the address.
      if (!isNew || connection.limits !== undefined || connection.timeline.open < asked.at) {
        throw new Error('the nonce came over a connection that proves nothing')
      }
      asked.arrived()
      await wire.write(DIAL_BACK_TAKEN, { signal })
      await stream.close({ signal })
    } catch (error) {
      stream.abort(error as Error)
    }
  }
}
