import type { Stream } from '@libp2p/interface'
import type { Uint8ArrayList } from 'uint8arraylist'
import { drained } from '../p2p/libp2p-fixes/drained.ts'
import { encodeFrame, encodeTextFrame, FRAME_BYTES_MAX, type Frame, FrameDecoder, FrameError } from './frame.ts'

/** Longest time from the first to the last byte of a frame (D24), and for the peer to accept a frame. */
const FRAME_TIMEOUT_MS = 30_000
/** Frames held for the reader. Beyond it the stream is paused, so that a fast peer does not fill the memory. */
const FRAMES_WAITING_MAX = 4

/** @internal Exported for its test. */
export type FramedStreamOptions = {
  frameTimeoutMs?: number
  /** Called with every change in the bytes this stream holds. Returns whether they may be held. */
  account?: (change: number) => boolean
}

type PendingRead = { resolve: (frame: Frame | undefined) => void; reject: (error: unknown) => void }

/**
 * Reads and writes frames over one libp2p stream. Construct it in the first, synchronous step of a stream handler:
 * libp2p drops bytes that arrive before a listener is attached. It holds at most one arriving frame and a few waiting
 * for the reader.
 */
export class FramedStream {
  readonly #stream: Stream
  #decoder = new FrameDecoder()
  readonly #frameTimeoutMs: number
  readonly #account: (change: number) => boolean
  #waiting: Frame[] = []
  #held = 0
  #sent = 0
  #reader: PendingRead | undefined
  #end: { error?: unknown } | undefined
  #slow: NodeJS.Timeout | undefined

  constructor(stream: Stream, options: FramedStreamOptions = {}) {
    this.#stream = stream
    this.#frameTimeoutMs = options.frameTimeoutMs ?? FRAME_TIMEOUT_MS
    this.#account = options.account ?? (() => true)
    stream.maxReadBufferLength = 2 * FRAME_BYTES_MAX
    stream.addEventListener('message', (event) => this.#receive(event.data))
    // Do not use `remoteCloseWrite`: while the stream is paused, earlier bytes are still undelivered then.
    stream.addEventListener('end', () => {
      if (stream.status !== 'aborted' && stream.status !== 'reset') this.#finish()
    })
    stream.addEventListener('close', (event) => this.#finish(event.error))
    this.#finishIfEnded()
  }

  /** False once no further frame can be written, for any reason. */
  get writable(): boolean {
    return this.#stream.status === 'open' && this.#stream.writeStatus === 'writable'
  }

  /** True once the peer has ended or broken its side. Waiting frames can still be read. */
  get ended(): boolean {
    return this.#end !== undefined
  }

  /**
   * The next frame, or undefined if the peer ended its side between two frames. Only one reader at a time.
   * @throws FrameError, the stream's own error, or the signal's reason
   */
  read(signal: AbortSignal): Promise<Frame | undefined> {
    if (signal.aborted) return Promise.reject(signal.reason)
    const frame = this.#waiting.shift()
    if (frame !== undefined) {
      this.#advance()
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

  async write(frame: Frame, signal: AbortSignal): Promise<void> {
    return this.#send(encodeFrame(frame), signal)
  }

  async writeText(type: string, text: string, signal: AbortSignal): Promise<void> {
    return this.#send(encodeTextFrame(type, text), signal)
  }

  /** Writes bytes outside any frame. The free protocol answers in this way. */
  writeRaw(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    return this.#send(bytes, signal)
  }

  /** Ends our side once the peer has accepted what was written. A peer that does not accept it in time is cut off. */
  async close(signal: AbortSignal = AbortSignal.timeout(this.#frameTimeoutMs)): Promise<void> {
    if (!this.writable) return
    await this.#stream.close({ signal }).catch((error: Error) => this.abort(error))
  }

  abort(error: Error): void {
    this.#stream.abort(error)
    this.#finish(error)
  }

  /** Drops all waiting and later bytes, because nobody reads them. Written frames are still sent. */
  discard(): void {
    this.#finish(new Error('nobody reads this stream any more'))
    this.#waiting = []
    this.#decoder = new FrameDecoder()
    this.#hold()
    this.#resume()
  }

  #receive(data: Uint8Array | Uint8ArrayList): void {
    if (this.#end !== undefined) return
    if (data instanceof Uint8Array) this.#decoder.push(data)
    else for (const chunk of data) this.#decoder.push(chunk)
    this.#advance()
    if (!this.#hold()) this.abort(new FrameError('FRAMES_UNREAD', 'too many bytes wait to be read'))
    else if (this.#isFull && this.#stream.readStatus === 'readable') this.#stream.pause()
    this.#finishIfEnded()
  }

  /**
   * Ends the reading side if the stream fired `end` before this reader listened. Protocol negotiation reads ahead: it
   * may see the half-close first, and then hand the bytes of the request back. `end` never fires again.
   */
  #finishIfEnded(): void {
    if (this.#stream.readableEnded && this.#stream.readBufferLength === 0) this.#finish()
  }

  get #isFull(): boolean {
    return this.#waiting.length >= FRAMES_WAITING_MAX
  }

  /** Cuts frames for the reader and a few ahead. The rest stays as bytes, so that small frames cost no objects. */
  #advance(): void {
    let frame = this.#next()
    if (frame !== undefined || this.#isFull) this.#stopWatch()
    for (; frame !== undefined; frame = this.#next()) {
      if (this.#reader === undefined) this.#waiting.push(frame)
      else this.#reader.resolve(frame)
    }
    if (this.#isFull) return
    if (this.#decoder.buffered === 0) this.#stopWatch()
    else if (this.#end === undefined) this.#startWatch()
    else this.#fail(new FrameError('FRAME_CUT', 'the stream ended inside a frame'))
  }

  #next(): Frame | undefined {
    if (this.#isFull) return undefined
    try {
      return this.#decoder.next()
    } catch (error) {
      // The bytes after a broken frame have no meaning, but the stream can still carry our answer.
      this.#fail(error)
      return undefined
    }
  }

  /** Drops everything after the complete frames. */
  #fail(error: unknown): void {
    this.#decoder = new FrameDecoder()
    if (this.#end === undefined) this.#finish(error)
    else this.#end.error ??= error
  }

  /** Limits the time of each frame, from its first byte or from the end of the previous frame. */
  #startWatch(): void {
    const late = () => this.#fail(new FrameError('FRAME_SLOW', `a frame took longer than ${this.#frameTimeoutMs} ms`))
    this.#slow ??= setTimeout(late, this.#frameTimeoutMs).unref()
  }

  #stopWatch(): void {
    clearTimeout(this.#slow)
    this.#slow = undefined
  }

  /** Accounts for the held bytes, and bounds them because QUIC cannot be paused. False: they may not be held. */
  #hold(): boolean {
    const now = this.#waiting.reduce((sum, frame) => sum + frame.data.length, this.#decoder.buffered)
    const change = now - this.#held
    this.#held = now
    if (change === 0) return true
    return this.#account(change) && now <= 2 * FRAME_BYTES_MAX
  }

  #resume(): void {
    if (!this.#isFull && this.#stream.readStatus === 'paused') this.#stream.resume()
  }

  /** Ends reading: no more useful bytes will arrive. Complete frames can still be read. */
  #finish(error?: unknown): void {
    if (this.#end !== undefined) return
    this.#end = error === undefined ? {} : { error }
    this.#stopWatch()
    this.#advance()
    this.#hold()
    if (this.#reader === undefined) return
    if (this.#end.error === undefined) this.#reader.resolve(undefined)
    else this.#reader.reject(this.#end.error)
  }

  async #send(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const isTaken = this.#stream.send(bytes)
    this.#sent += bytes.length
    if (isTaken) return
    const end = this.#sent
    const isOut = () => this.#sent - this.#stream.writeBufferLength >= end
    if (isOut()) return
    const mayWait = this.#account(bytes.length)
    try {
      if (!mayWait) throw new FrameError('FRAMES_UNREAD', 'too many bytes wait for the peer to take them')
      const limitMs = this.#frameTimeoutMs
      const late = () => new FrameError('FRAME_SLOW', `the peer took no frame within ${limitMs} ms`)
      await drained(this.#stream, isOut, { limitMs, late }, signal)
    } catch (error) {
      // Part of the frame may have left, so any later frame on this stream would have no meaning.
      if (error instanceof FrameError) this.abort(error)
      throw error
    } finally {
      this.#account(-bytes.length)
    }
  }
}

const ENDS: ReadonlySet<string> = new Set([
  'ConnectionClosedError',
  'ConnectionClosingError',
  'MuxerClosedError',
  'StreamAbortedError',
  'StreamResetError',
  'StreamStateError',
])

/** True for an error of a stream whose peer has left or has stopped reading: no fault of this node. */
export function hasPeerLeft(error: unknown): boolean {
  return error instanceof FrameError || (error instanceof Error && ENDS.has(error.name))
}
