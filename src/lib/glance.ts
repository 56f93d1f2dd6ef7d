import type { IncomingMessage, RequestOptions } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { UnixMs } from './clock.ts'
import { reasonOf } from './errors.ts'
import { fewPreliminaryAnswers } from './preliminary-answers.ts'

export type GlanceOptions = {
  method: 'GET' | 'POST'
  headers?: Readonly<Record<string, string>>
  body?: string
  /** Bytes of the body that are read. The rest is left. */
  bodyBytesMax: number
  /** Resolves names. Default: that of the system. */
  lookup?: RequestOptions['lookup']
  /** Certificates to trust instead of those of the system, as PEM. */
  ca?: string | undefined
  signal: AbortSignal
}

/** What was seen at an address. */
export type Glance =
  | { kind: 'unreachable'; reason: string }
  | { kind: 'tls'; reason: string }
  | {
      kind: 'answered'
      status: number
      headers: IncomingMessage['headers']
      /** At most `bodyBytesMax` bytes of it. */
      body: string
      /** Undefined over http. */
      certificateEndsAt: UnixMs | undefined
    }

const HEAD_BYTES_MAX = 16 * 1024

/** Sends one request over a connection of its own and looks at the answer. Redirects are not followed. Never throws. */
export async function glance(url: URL, options: GlanceOptions): Promise<Glance> {
  const { body = '', headers, method, lookup, ca, signal } = options
  const isTls = url.protocol === 'https:'
  const { request } = isTls ? process.getBuiltinModule('node:https') : process.getBuiltinModule('node:http')
  const few = fewPreliminaryAnswers(signal)
  let stage: 'connecting' | 'securing' | 'asking' = 'connecting'
  try {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const asked = request(url, {
        ...{
          method,
          signal: few.signal,
          agent: false,
          maxHeaderSize: HEAD_BYTES_MAX,
          ca,
          ...(lookup !== undefined && { lookup }),
        },
        headers: { ...headers, ...(method === 'POST' && { 'content-length': String(Buffer.byteLength(body)) }) },
      })
      asked.on('socket', (socket) => {
        socket.once('connect', () => {
          stage = isTls ? 'securing' : 'asking'
        })
        socket.once('secureConnect', () => {
          stage = 'asking'
        })
      })
      asked.on('information', few.onInfo)
      asked.once('response', resolve)
      asked.once('error', reject)
      asked.end(body)
    })
    const certificateEndsAt = isTls ? endOf(answer.socket as TLSSocket) : undefined
    const text = await start(answer, options.bodyBytesMax)
    return { kind: 'answered', status: answer.statusCode!, headers: answer.headers, body: text, certificateEndsAt }
  } catch (error) {
    if (signal.aborted) return { kind: 'unreachable', reason: 'no answer in time' }
    return {
      kind: (stage as string) === 'securing' ? 'tls' : 'unreachable',
      reason: reasonOf(few.signal.aborted ? few.signal.reason : error),
    }
  }
}

async function start(answer: IncomingMessage, bytesMax: number): Promise<string> {
  const pieces: Buffer[] = []
  let bytes = 0
  if (bytesMax > 0) {
    for await (const piece of answer as AsyncIterable<Buffer>) {
      pieces.push(piece)
      bytes += piece.byteLength
      if (bytes >= bytesMax) break
    }
  }
  answer.destroy()
  return Buffer.concat(pieces).subarray(0, bytesMax).toString()
}

function endOf(socket: TLSSocket): UnixMs | undefined {
  const at = Date.parse(socket.getPeerCertificate().valid_to)
  return Number.isNaN(at) ? undefined : at
}
