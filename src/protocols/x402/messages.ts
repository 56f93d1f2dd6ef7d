import * as z from 'zod'
import { readPeerJson } from '../../lib/json.ts'
import type { Charge } from '../../schema/channel.ts'
import { TASK_BYTES_MAX } from '../../schema/limits.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { SignedReceipt, SignedX402Receipt } from '../../schema/receipt.ts'
import { type Settlement, type X402Message, type X402MessageType, x402Messages } from '../../schema/x402.ts'
import { DATA_BYTES_MAX, type Frame, FrameError } from '../frame.ts'
import type { FramedStream } from '../framed-stream.ts'
import { PeerError } from '../peer-error.ts'
import type { Exchange, PaidResult, X402ServerDeps } from './exchange.ts'
import { unwrapTask, wrapOutput } from './wrapped-body.ts'

export const VERSION = '1.0'
/** Stands for a correlation id that could not be read. */
export const NO_CORRELATION_ID = '00000000-0000-4000-8000-000000000000'
const ISSUES_SHOWN_MAX = 5
/** Room for the other fields of a message, mainly the receipt. */
const BESIDE_BODY_BYTES = 64 * 1024
/** The longest body that fits into a message as base64. */
const RESPONSE_BODY_BYTES_MAX = ((DATA_BYTES_MAX - BESIDE_BODY_BYTES) / 4) * 3

const utf8 = new TextDecoder('utf-8', { fatal: true })

export type AnyX402Message = { [T in X402MessageType]: { type: T; message: X402Message<T> } }[X402MessageType]

/**
 * Reads the next message and checks it against its schema. Undefined if the peer has ended its side.
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
  return stream.writeText(type, JSON.stringify(withTexts(message)), signal)
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
      ...(error.channel !== undefined && { channel: error.channel }),
    },
    signal,
  )
}

export async function refuseX402(stream: FramedStream, error: PeerError, signal: AbortSignal): Promise<void> {
  await writeError(stream, error, undefined, signal)
  await stream.close()
}

/**
 * Encodes amounts and times, which are bigint in memory and decimal text on the wire, as the schemas define. A replacer of
 * JSON.stringify would be called for every value, and cost three times as much as the rest.
 */
function withTexts(value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString()
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(withTexts)
  const fields = value as Record<string, unknown>
  let encoded = fields
  for (const name in fields) {
    const field = fields[name]
    if (typeof field !== 'object' && typeof field !== 'bigint') continue
    const text = withTexts(field)
    if (text === field) continue
    if (encoded === fields) encoded = { ...fields }
    encoded[name] = text
  }
  return encoded
}

/** @throws PeerError `INVALID_MESSAGE` */
export function jsonOf(data: Uint8Array): unknown {
  const json = readPeerJson(data)
  if (!json.ok) throw new PeerError('INVALID_MESSAGE', `the data ${json.reason}`)
  return json.value
}

function correlationIdOf(json: unknown): string | undefined {
  const parsed = z.looseObject({ correlation_id: z.uuidv4() }).safeParse(json)
  return parsed.data?.correlation_id
}

function describe(error: z.ZodError): string {
  const shown = error.issues.slice(0, ISSUES_SHOWN_MAX)
  return shown.map((issue) => `${issue.path.join('.') || 'message'}: ${issue.message}`).join('; ')
}

export function respond(
  result: Omit<PaidResult, 'receipt'> & {
    id: Hex
    tokenId: string
    receipt: SignedReceipt | SignedX402Receipt | undefined
    /** Of a call on a channel. */
    charge?: Charge | undefined
    settlements?: readonly Settlement[] | undefined
  },
  exchange: Exchange,
  { sellerDid }: Pick<X402ServerDeps, 'sellerDid'>,
): Promise<void> {
  const message = {
    version: VERSION,
    correlation_id: exchange.correlationId,
    payment_id: result.id,
    tx_hash: result.txHash ?? '',
    body: outputBody(result.output, exchange),
    seller_did: sellerDid,
    seller_token_id: result.tokenId,
    ...(result.receipt !== undefined && { receipt: result.receipt }),
    ...(result.charge !== undefined && { charge: result.charge }),
    ...(result.settlements !== undefined && { settlements: result.settlements }),
  } as const
  return writeMessage(exchange.stream, 'x402.response', message, exchange.signal)
}

/**
 * Reads the task: base64 of UTF-8 text, plain or wrapped. A wrapped task gets a wrapped answer.
 * @throws PeerError INVALID_MESSAGE
 */
export function readTask(body: string, resource: string, exchange: Exchange): { input: string; exchange: Exchange } {
  const text = textOf(body)
  const unwrapped = unwrapTask(text, resource)
  checkTask(unwrapped ?? text)
  return { input: unwrapped ?? text, exchange: { ...exchange, isWrapped: unwrapped !== undefined } }
}

/** A task travels on to a worker, in a frame with other fields beside it. @throws PeerError INVALID_MESSAGE */
export function checkTask(input: string): void {
  const bytes = Buffer.byteLength(input)
  if (bytes <= TASK_BYTES_MAX) return
  throw new PeerError('INVALID_MESSAGE', `the task has ${bytes} bytes; the limit is ${TASK_BYTES_MAX}`)
}

/**
 * JSON may need up to six bytes for a character. If a wrapped result is too long for a frame, it is sent plain, which
 * the original node accepts too: a paid result must not be lost to its wrapper.
 */
function outputBody(output: string, { isWrapped }: Pick<Exchange, 'isWrapped'>): string {
  const wrapped = isWrapped === true ? Buffer.from(wrapOutput(output)) : undefined
  const fits = wrapped !== undefined && wrapped.length <= RESPONSE_BODY_BYTES_MAX
  return (fits ? wrapped : Buffer.from(output)).toString('base64')
}

function textOf(body: string): string {
  try {
    return utf8.decode(Buffer.from(body, 'base64'))
  } catch (cause) {
    throw new PeerError('INVALID_MESSAGE', 'body is not the base64 of UTF-8 text', { cause })
  }
}
