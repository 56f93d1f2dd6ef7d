import type { Stream } from '@libp2p/interface'
import type { Uint8ArrayList } from 'uint8arraylist'
import { encodeFrame, encodeTextFrame, FRAME_BYTES_MAX, type Frame, FrameDecoder, FrameError } from './frame.ts'

/** How long a frame may take from its first byte to its last (D24). */
const FRAME_TIMEOUT_MS = 30_000
/** Frames held for a reader that has not asked yet. Beyond it the peer is made to wait. */
const FRAMES_WAITING_MAX = 4

export type FramedStreamOptions = {
  frameTimeoutMs?: number
  /** Told of every change in the bytes this stream holds; answers whether they may be held. */
  account?: (change: number) => boolean
}

type Reader = { resolve: (frame: Frame | undefined) => void; reject: (error: unknown) => void }

/**
 * Frames over one libp2p stream.
 *
 * Construct it in the first, synchronous step of a stream handler: it listens at once, as libp2p drops what comes
 * before a listener is there. Holds at most one frame that is arriving and a few that wait for their reader.
 */
export class FramedStream {
  readonly #stream: Stream
  readonly #decoder = new FrameDecoder()
  readonly #frameTimeoutMs: number
  readonly #account: (change: number) => boolean
  #waiting: Frame[] = []
  #held = 0
  #reader: Reader | undefined
  #end: { error?: unknown } | undefined
  #slow: NodeJS.Timeout | undefined

  constructor(stream: Stream, options: FramedStreamOptions = {}) {
    this.#stream = stream
    this.#frameTimeoutMs = options.frameTimeoutMs ?? FRAME_TIMEOUT_MS
    this.#account = options.account ?? (() => true)
    stream.maxReadBufferLength = 2 * FRAME_BYTES_MAX
    stream.addEventListener('message', (event) => this.#receive(event.data))
    stream.addEventListener('remoteCloseWrite', () => this.#finish())
    stream.addEventListener('close', (event) => this.#finish(event.error))
  }

  /** False once no further frame can be written, whatever the reason. */
  get writable(): boolean {
    return this.#stream.status === 'open'
  }

  /** True once the peer has ended or broken its side; frames that wait can still be read. */
  get ended(): boolean {
    return this.#end !== undefined
  }

  /**
   * The next frame, or undefined where the peer has ended its side between two frames.
   *
   * One reader at a time. @throws FrameError, the stream's own error, or the signal's reason
   */
  read(signal: AbortSignal): Promise<Frame | undefined> {
    if (signal.aborted) return Promise.reject(signal.reason)
    const frame = this.#waiting.shift()
    if (frame !== undefined) {
      this.#hold()
      this.#resume()
      return Promise.resolve(frame)
    }
    if (this.#end !== undefined) {
      return this.#end.error === undefined ? Promise.resolve(undefined) : Promise.reject(this.#end.error)
    }
    return new Promise((resolve, reject) => {
      const give = (settle: () => void) => {
        this.#reader = undefined
        signal.removeEventListener('abort', aborted)
        settle()
      }
      const aborted = () => give(() => reject(signal.reason))
      signal.addEventListener('abort', aborted, { once: true })
      this.#reader = {
        resolve: (next) => give(() => resolve(next)),
        reject: (error) => give(() => reject(error)),
      }
    })
  }

  write(frame: Frame, signal: AbortSignal): Promise<void> {
    return this.#send(encodeFrame(frame), signal)
  }

  /** Writes a frame whose data is a text, JSON as a rule. */
  writeText(type: string, text: string, signal: AbortSignal): Promise<void> {
    return this.#send(encodeTextFrame(type, text), signal)
  }

  /** Writes bytes outside any frame, as the free protocol answers. */
  writeRaw(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    return this.#send(bytes, signal)
  }

  async close(signal?: AbortSignal): Promise<void> {
    if (this.#stream.status === 'open') await this.#stream.close(signal === undefined ? {} : { signal })
  }

  abort(error: Error): void {
    this.#stream.abort(error)
    this.#finish(error)
  }

  #receive(data: Uint8Array | Uint8ArrayList): void {
    if (this.#end !== undefined) return
    if (data instanceof Uint8Array) this.#decoder.push(data)
    else for (const chunk of data) this.#decoder.push(chunk)
    try {
      for (let frame = this.#decoder.next(); frame !== undefined; frame = this.#decoder.next()) this.#deliver(frame)
    } catch (error) {
      // The bytes that follow a broken frame mean nothing, but the stream can still carry our answer.
      this.#finish(error)
      return
    }
    this.#watch()
    if (this.#waiting.length >= FRAMES_WAITING_MAX && this.#stream.status === 'open') this.#stream.pause()
    if (!this.#hold()) this.abort(new FrameError('FRAMES_UNREAD', 'too many bytes wait to be read'))
  }

  #deliver(frame: Frame): void {
    if (this.#reader !== undefined) this.#reader.resolve(frame)
    else this.#waiting.push(frame)
  }

  /** QUIC cannot be paused, so what waits is bounded here as well. Answers whether it may be held. */
  #hold(): boolean {
    const now = this.#decoder.buffered + this.#waiting.reduce((sum, frame) => sum + frame.data.length, 0)
    const change = now - this.#held
    this.#held = now
    if (change === 0) return true
    return this.#account(change) && now <= 2 * FRAME_BYTES_MAX
  }

  #watch(): void {
    if (this.#decoder.buffered === 0) {
      clearTimeout(this.#slow)
      this.#slow = undefined
      return
    }
    const late = () => this.#finish(new FrameError('FRAME_SLOW', `a frame took longer than ${this.#frameTimeoutMs} ms`))
    this.#slow ??= setTimeout(late, this.#frameTimeoutMs).unref()
  }

  #resume(): void {
    if (this.#waiting.length < FRAMES_WAITING_MAX && this.#stream.status === 'open') this.#stream.resume()
  }

  #finish(error?: unknown): void {
    if (this.#end !== undefined) return
    clearTimeout(this.#slow)
    const cut = this.#decoder.buffered > 0 ? new FrameError('FRAME_CUT', 'the stream ended inside a frame') : undefined
    const reason = error ?? cut
    this.#end = reason === undefined ? {} : { error: reason }
    this.#account(-this.#held)
    this.#held = 0
    if (reason === undefined) this.#reader?.resolve(undefined)
    else this.#reader?.reject(reason)
  }

  async #send(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (!this.#stream.send(bytes)) await drained(this.#stream, signal)
  }
}

/** Waits for the stream's own `drain`: libp2p's `onDrain()` waits only the first time. */
function drained(stream: Stream, signal: AbortSignal): Promise<void> {
  if (!stream.writableNeedsDrain) return Promise.resolve()
  return new Promise((resolve, reject) => {
    const settle = (finish: () => void) => () => {
      stream.removeEventListener('drain', ready)
      stream.removeEventListener('close', closed)
      signal.removeEventListener('abort', aborted)
      finish()
    }
    const ready = settle(resolve)
    const closed = settle(() => reject(new Error('the stream closed before it took the frame')))
    const aborted = settle(() => reject(signal.reason))
    stream.addEventListener('drain', ready)
    stream.addEventListener('close', closed)
    signal.addEventListener('abort', aborted)
  })
}
