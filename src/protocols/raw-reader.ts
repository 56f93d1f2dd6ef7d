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
    return new Promise((resolve, reject) => {
      const aborted = () => this.#waiting?.reject(signal.reason)
      const settled = () => {
        signal.removeEventListener('abort', aborted)
        this.#waiting = undefined
      }
      this.#waiting = {
        count,
        resolve: (bytes) => {
          settled()
          resolve(bytes)
        },
        reject: (error) => {
          settled()
          reject(error)
        },
      }
      signal.addEventListener('abort', aborted)
      this.#serve()
    })
  }

  #serve(): void {
    const waiting = this.#waiting
    if (waiting === undefined) return
    if (this.#length >= waiting.count) {
      const all = Buffer.concat(this.#held)
      this.#held = [all.subarray(waiting.count)]
      this.#length -= waiting.count
      waiting.resolve(all.subarray(0, waiting.count))
    } else if (this.#end !== undefined) {
      waiting.reject(this.#end)
    }
  }

  #finish(error: unknown): void {
    this.#end ??= error
    this.#serve()
  }
}
