import * as z from 'zod'
import { parseJson } from '../../lib/json.ts'
import { type X402Message, type X402MessageType, x402Messages } from '../../schema/x402.ts'
import { type Frame, FrameError } from '../frame.ts'
import type { FramedStream } from '../framed-stream.ts'
import { PeerError } from '../peer-error.ts'

/** The version in every message. */
export const VERSION = '1.0'
/** Stands for a correlation id that could not be read. */
export const NO_CORRELATION_ID = '00000000-0000-4000-8000-000000000000'
const ISSUES_SHOWN_MAX = 5

export type AnyX402Message = { [T in X402MessageType]: { type: T; message: X402Message<T> } }[X402MessageType]

/**
 * Reads the next message and checks it against its schema. Undefined if the peer has ended its side.
 *
 * @throws PeerError `INVALID_MESSAGE`, with the correlation id if it could be read
 */
export async function readMessage(stream: FramedStream, signal: AbortSignal): Promise<AnyX402Message | undefined> {
  const frame = await readFrame(stream, signal)
  return frame === undefined ? undefined : parseMessage(frame)
}

/** @throws PeerError `INVALID_MESSAGE` for bytes that are not a frame */
export function readFrame(stream: FramedStream, signal: AbortSignal): Promise<Frame | undefined> {
  return stream.read(signal).catch((cause: unknown) => {
    if (cause instanceof FrameError) throw new PeerError('INVALID_MESSAGE', cause.message, { cause })
    throw cause
  })
}

export function parseMessage(frame: Frame): AnyX402Message {
  if (!Object.hasOwn(x402Messages, frame.type)) {
    throw new PeerError('INVALID_MESSAGE', `unknown message type ${JSON.stringify(frame.type)}`)
  }
  const type = frame.type as X402MessageType
  const json = jsonOf(frame.data)
  const parsed = x402Messages[type].safeParse(json)
  if (parsed.success) return { type, message: parsed.data } as AnyX402Message
  const error = new PeerError('INVALID_MESSAGE', `${type}: ${describe(parsed.error)}`)
  error.correlationId = correlationIdOf(json)
  throw error
}

export function writeMessage<T extends X402MessageType>(
  stream: FramedStream,
  type: T,
  message: X402Message<T>,
  signal: AbortSignal,
): Promise<void> {
  return stream.writeText(type, JSON.stringify(message, bigintAsText), signal)
}

export function writeError(
  stream: FramedStream,
  error: PeerError,
  correlationId: string | undefined,
  signal: AbortSignal,
) {
  return writeMessage(
    stream,
    'x402.error',
    {
      version: VERSION,
      correlation_id: correlationId ?? error.correlationId ?? NO_CORRELATION_ID,
      error_code: error.errorCode,
      error_name: error.code,
      message: error.message.slice(0, 1000),
      retryable: error.retryable,
      ...(error.refundTx !== undefined && { refund_tx: error.refundTx }),
    },
    signal,
  )
}

/** Sends the reason for refusing the stream, and ends it. */
export async function refuseX402(stream: FramedStream, error: PeerError, signal: AbortSignal): Promise<void> {
  await writeError(stream, error, undefined, signal)
  await stream.close()
}

/** Encodes amounts and times, which are bigint in memory and decimal text on the wire, as the schemas define. */
function bigintAsText(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value
}

/** @throws PeerError `INVALID_MESSAGE` */
export function jsonOf(data: Uint8Array): unknown {
  const json = parseJson(data)
  if (json === undefined) throw new PeerError('INVALID_MESSAGE', 'the data is not JSON in UTF-8')
  return json
}

function correlationIdOf(json: unknown): string | undefined {
  const parsed = z.looseObject({ correlation_id: z.uuidv4() }).safeParse(json)
  return parsed.data?.correlation_id
}

/** What is wrong with a message, in one line. */
function describe(error: z.ZodError): string {
  const shown = error.issues.slice(0, ISSUES_SHOWN_MAX)
  return shown.map((issue) => `${issue.path.join('.') || 'message'}: ${issue.message}`).join('; ')
}
