import type { IncomingMessage, ServerResponse } from 'node:http'
import { Hold } from './hold.ts'

/** Up to this many unread bytes of an answer take no room. */
const SMALL_BYTES = 64 * 1024

type Chunk = string | Uint8Array
/** The methods by which Fastify, the SDKs of A2A and MCP, and streams write answers. */
type Writing = {
  writeHead(...head: unknown[]): ServerResponse
  flushHeaders(): void
  write(chunk: Chunk, ...more: unknown[]): boolean
  end(chunk?: Chunk | (() => void), ...more: unknown[]): ServerResponse
}

/** What a client gets instead of an answer for which there is no room. */
type Refusal = { status: number; headers: Readonly<Record<string, string>>; body: string }

type RoomOptions = {
  /** Takes room for this many bytes. @returns a `Hold`; anything else: there is not enough room */
  take(bytes: number): unknown
  /** The answer to a client without room. Its body is JSON, in the form of the protocol. */
  refusal(): Refusal
}

/**
 * Limits the memory for unread answers, for every writer of this response: at once or piece by piece. Without room the client
 * gets a refusal instead, or loses its connection if the answer has begun. Nothing is lost: a paid result is stored, and the
 * same request gets it.
 *
 * @returns whether the answer was refused or cut off
 */
export function answerInRoom(
  request: Pick<IncomingMessage, 'complete'>,
  response: ServerResponse,
  { take, refusal }: RoomOptions,
): { isRefused(): boolean } {
  const writing = response as unknown as Writing
  const original: Writing = {
    writeHead: writing.writeHead.bind(response),
    flushHeaders: writing.flushHeaders.bind(response),
    write: writing.write.bind(response),
    end: writing.end.bind(response),
  }
  /** A head that is not sent before the first byte of the body, so that a refusal can replace it. */
  let head: unknown[] | undefined
  /** True while Node writes the body. It calls `writeHead` then, if no head was set. */
  let isWriting = false
  let isRefused = false
  const room = new Room(take)

  /** Writes, after the head that waits. */
  function writeOut<T>(write: () => T): T {
    const given = head
    head = undefined
    if (given !== undefined && !response.headersSent) original.writeHead(...given)
    isWriting = true
    try {
      return write()
    } finally {
      isWriting = false
    }
  }

  /** False: there is no room, and the answer is over. */
  function makeRoom(bytes: number): boolean {
    // Node drops what is written to a client that has left, and nobody would give the room back.
    if (response.destroyed || isRefused || room.holds(response.writableLength + bytes)) return !isRefused
    isRefused = true
    head = undefined
    if (!request.complete && !response.headersSent) response.setHeader('connection', 'close')
    if (response.headersSent) response.destroy()
    else refuse(response, original, refusal())
    return false
  }

  Object.assign(writing, {
    writeHead(...given) {
      if (isWriting) return original.writeHead(...given)
      if (!isRefused) head = given
      return response
    },
    flushHeaders() {
      writeOut(original.flushHeaders)
    },
    write(chunk, ...more) {
      if (!makeRoom(lengthOf(chunk))) return true
      const isTaken = writeOut(() => original.write(chunk, ...more))
      if (response.writableLength <= SMALL_BYTES) room.release()
      return isTaken
    },
    end(chunk, ...more) {
      if (!makeRoom(typeof chunk === 'function' ? 0 : lengthOf(chunk))) return response
      return writeOut(() => original.end(chunk, ...more))
    },
  } satisfies Writing)
  response.on('drain', () => room.release())
  response.once('close', () => room.release())
  return { isRefused: () => isRefused }
}

/** The room that one answer has. */
class Room {
  readonly #take: (bytes: number) => unknown
  #held = 0
  #parts: Hold[] = []

  constructor(take: (bytes: number) => unknown) {
    this.#take = take
  }

  /** Takes the room that is missing for this many unread bytes. False: there is not enough. */
  holds(bytes: number): boolean {
    if (bytes <= SMALL_BYTES || bytes <= this.#held) return true
    const taken = this.#take(bytes - this.#held)
    if (!(taken instanceof Hold)) return false
    this.#parts.push(taken)
    this.#held = bytes
    return true
  }

  release(): void {
    for (const part of this.#parts.splice(0)) part[Symbol.dispose]()
    this.#held = 0
  }
}

function refuse(response: ServerResponse, { writeHead, end }: Writing, { status, headers, body }: Refusal): void {
  for (const name of ['content-length', 'content-encoding', 'etag']) response.removeHeader(name)
  writeHead(status, { ...headers, 'content-type': 'application/json' })
  end(body)
}

function lengthOf(chunk: Chunk | undefined): number {
  return typeof chunk === 'string' ? Buffer.byteLength(chunk) : (chunk?.length ?? 0)
}
