import type { Stream } from '@libp2p/interface'
import { DATA_BYTES_MAX } from './frame.ts'

const HELD_BYTES_MAX = DATA_BYTES_MAX + 64 * 1024

type PendingBytes = { count: number; resolve: (bytes: Uint8Array) => void; reject: (error: unknown) => void }

/** Reads bytes outside frames, one read at a time. Construct it before the first `await`, so that none are lost. */
export class RawReader {
  #held: Buffer[] = []
  #length = 0
  #waiting: PendingBytes | undefined
  #end: unknown

  constructor(stream: Stream) {
    stream.maxReadBufferLength = HELD_BYTES_MAX
    stream.addEventListener('message', ({ data }) => {
      this.#held.push(Buffer.from(data.subarray()))
      this.#length += data.byteLength
      if (this.#length > HELD_BYTES_MAX) stream.abort(new Error('the peer sent more than an answer may hold'))
      this.#serve()
    })
    stream.addEventListener('remoteCloseWrite', () => this.#finish(new Error('the peer ended the stream too early')))
    stream.addEventListener('close', ({ error }) => this.#finish(error ?? new Error('the stream was closed')))
  }

  read(count: number, signal: AbortSignal): Promise<Uint8Array> {
    if (signal.aborted) return Promise.reject(signal.reason)
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>()
    const aborted = () => {
      this.#waiting = undefined
      reject(signal.reason)
    }
    this.#waiting = { count, resolve, reject }
    signal.addEventListener('abort', aborted)
    this.#serve()
    return promise.finally(() => signal.removeEventListener('abort', aborted))
  }

  #serve(): void {
    const waiting = this.#waiting
    if (waiting === undefined) return
    if (this.#length >= waiting.count) {
      this.#waiting = undefined
      const all = Buffer.concat(this.#held)
      this.#held = [all.subarray(waiting.count)]
      this.#length -= waiting.count
      waiting.resolve(all.subarray(0, waiting.count))
    } else if (this.#end !== undefined) {
      this.#waiting = undefined
      waiting.reject(this.#end)
    }
  }

  #finish(error: unknown): void {
    this.#end ??= error
    this.#serve()
  }
}
