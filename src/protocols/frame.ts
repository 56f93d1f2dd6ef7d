import { CodedError } from '../lib/errors.ts'

const TYPE_BYTES_MAX = 128
export const DATA_BYTES_MAX = 8 * 1024 * 1024
const TYPE_LENGTH_BYTES = 2
const DATA_LENGTH_BYTES = 4
const SMALL_CHUNK_BYTES = 64 * 1024
const SMALL_CHUNKS_MAX = 64
export const FRAME_BYTES_MAX = TYPE_LENGTH_BYTES + TYPE_BYTES_MAX + DATA_LENGTH_BYTES + DATA_BYTES_MAX

export type Frame = { type: string; data: Uint8Array }

/** What is wrong with the bytes of a frame. After such an error no further frame can be read from the stream. */
export class FrameError extends CodedError<
  'TYPE_LENGTH' | 'TYPE_NOT_UTF8' | 'DATA_LENGTH' | 'FRAME_CUT' | 'FRAME_SLOW' | 'FRAMES_UNREAD'
> {
  override name = 'FrameError'
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * ```bnf
 * frame ::= type_len(u16be, 1..128) type(utf-8) data_len(u32be, 0..8 MiB) data
 * ```
 */
export function encodeFrame({ type, data }: Frame): Uint8Array {
  const frame = frameOf(type, data.length)
  frame.set(data, frame.length - data.length)
  return frame
}

/** Encodes a frame of a JSON text directly, without an encoded copy of the text in between. */
export function encodeTextFrame(type: string, text: string): Uint8Array {
  const length = Buffer.byteLength(text)
  const frame = frameOf(type, length)
  frame.write(text, frame.length - length)
  return frame
}

function frameOf(type: string, dataLength: number): Buffer {
  const typeLength = Buffer.byteLength(type)
  if (typeLength === 0 || typeLength > TYPE_BYTES_MAX)
    throw new FrameError('TYPE_LENGTH', `type of ${typeLength} bytes`)
  if (dataLength > DATA_BYTES_MAX)
    throw new FrameError('DATA_LENGTH', `data of ${dataLength} bytes, limit ${DATA_BYTES_MAX}`)
  const frame = Buffer.allocUnsafe(TYPE_LENGTH_BYTES + typeLength + DATA_LENGTH_BYTES + dataLength)
  let offset = frame.writeUInt16BE(typeLength, 0)
  offset += frame.write(type, offset)
  frame.writeUInt32BE(dataLength, offset)
  return frame
}

/**
 * Cuts a stream of bytes, chunked in any way, into frames. Holds only bytes that have arrived: a length in a header
 * reserves no memory, and one over its limit is refused before any byte of the data.
 */
export class FrameDecoder {
  #chunks: Uint8Array[] = []
  #length = 0
  #smallChunks = 0
  #header: { type: string; bytes: number; dataLength: number } | undefined

  /** Bytes held that belong to no frame taken yet. */
  get buffered(): number {
    return this.#length
  }

  push(chunk: Uint8Array): void {
    if (chunk.length === 0) return
    this.#chunks.push(chunk)
    this.#length += chunk.length
    if (chunk.length < SMALL_CHUNK_BYTES && ++this.#smallChunks >= SMALL_CHUNKS_MAX) this.#joinSmallChunks()
  }

  /** The next complete frame, if there is one. @throws FrameError for a header outside the grammar */
  next(): Frame | undefined {
    this.#header ??= this.#readHeader()
    if (this.#header === undefined) return undefined
    const { type, bytes, dataLength } = this.#header
    if (this.#length < bytes + dataLength) return undefined
    const frame = this.#take(bytes + dataLength)
    this.#header = undefined
    return { type, data: frame.subarray(bytes) }
  }

  #readHeader(): { type: string; bytes: number; dataLength: number } | undefined {
    if (this.#length < TYPE_LENGTH_BYTES) return undefined
    const start = this.#peek(TYPE_LENGTH_BYTES)
    const typeLength = start.readUInt16BE(0)
    if (typeLength === 0 || typeLength > TYPE_BYTES_MAX) {
      throw new FrameError('TYPE_LENGTH', `type_len is ${typeLength}, allowed are 1 to ${TYPE_BYTES_MAX}`)
    }
    const bytes = TYPE_LENGTH_BYTES + typeLength + DATA_LENGTH_BYTES
    if (this.#length < bytes) return undefined
    const header = this.#peek(bytes)
    const dataLength = header.readUInt32BE(bytes - DATA_LENGTH_BYTES)
    if (dataLength > DATA_BYTES_MAX) {
      throw new FrameError('DATA_LENGTH', `data_len is ${dataLength}, allowed are at most ${DATA_BYTES_MAX}`)
    }
    return { type: decodeType(header.subarray(TYPE_LENGTH_BYTES, bytes - DATA_LENGTH_BYTES)), bytes, dataLength }
  }

  /** Joins small chunks, so that a peer that sends byte by byte does not cost an object and a buffer for each byte. */
  #joinSmallChunks(): void {
    let start = this.#chunks.length
    while (start > 0 && this.#chunks[start - 1]!.length < SMALL_CHUNK_BYTES) start--
    this.#chunks.push(Buffer.concat(this.#chunks.splice(start)))
    this.#smallChunks = 0
  }

  /** The first `count` bytes as one view. It joins the first chunks only if the first chunk is too short. */
  #peek(count: number): Buffer {
    while (this.#chunks[0]!.length < count) {
      const [first, second] = this.#chunks.splice(0, 2)
      this.#chunks.unshift(Buffer.concat([first!, second!]))
    }
    const first = this.#chunks[0]!
    return Buffer.from(first.buffer, first.byteOffset, count)
  }

  #take(count: number): Uint8Array {
    this.#length -= count
    const first = this.#chunks[0]!
    if (first.length === count) {
      this.#chunks.shift()
      return first
    }
    if (first.length > count) {
      this.#chunks[0] = first.subarray(count)
      return first.subarray(0, count)
    }
    const taken = Buffer.allocUnsafeSlow(count)
    let filled = 0
    while (filled < count) {
      const chunk = this.#chunks.shift()!
      const part = chunk.subarray(0, count - filled)
      taken.set(part, filled)
      filled += part.length
      if (part.length < chunk.length) this.#chunks.unshift(chunk.subarray(part.length))
    }
    return taken
  }
}

function decodeType(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch (cause) {
    throw new FrameError('TYPE_NOT_UTF8', 'the type is not UTF-8', { cause })
  }
}
