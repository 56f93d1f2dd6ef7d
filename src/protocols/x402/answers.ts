import * as z from 'zod'
import { Hash32, type Hex } from '../../schema/primitives.ts'
import { X402Response } from '../../schema/x402.ts'
import type { Frame } from '../frame.ts'
import type { FramedStream } from '../framed-stream.ts'
import { PeerError } from '../peer-error.ts'
import { type AnyX402Message, jsonOf, NO_CORRELATION_ID, parseMessage, readFrame } from './messages.ts'

/** A response as the buyer reads it: missing fields are empty, `oddities` describes unusual ones. `body` is base64. */
export type ReceivedResponse = Omit<z.infer<typeof X402Response>, 'payment_id' | 'tx_hash'> & {
  payment_id: Hex | ''
  tx_hash: Hex | ''
  oddities: readonly string[]
}

type Strict = Exclude<AnyX402Message, { type: 'x402.response' | 'x402.payment_required' }>
type PaymentRequired = Extract<AnyX402Message, { type: 'x402.payment_required' }>['message']

/** What a seller answers. `challengeText` is the nonce of the challenge as the seller spells it. */
export type SellerAnswer =
  | Strict
  | { type: 'x402.response'; message: ReceivedResponse }
  | { type: 'x402.payment_required'; message: PaymentRequired; challengeText: string }

/** The seller's answer cannot be read. After payment this says nothing about the result. */
export class UnreadableAnswer extends PeerError {
  override name = 'UnreadableAnswer'
}

const ODDITY_LENGTH_MAX = 500
const BARE_NONCE = /^[0-9a-fA-F]{64}$/

/**
 * Reads the seller's next answer. Undefined if the seller has ended its side. @throws UnreadableAnswer
 *
 * It is more lenient than a seller: a paid result must not be lost because another field is wrong. The original node of
 * this protocol spells some fields in its own way.
 */
export async function readAnswer(stream: FramedStream, signal: AbortSignal): Promise<SellerAnswer | undefined> {
  try {
    const frame = await readFrame(stream, signal)
    return frame === undefined ? undefined : parseAnswer(frame)
  } catch (error) {
    if (!(error instanceof PeerError)) throw error
    throw new UnreadableAnswer(error.code, error.message, { cause: error.cause ?? error })
  }
}

function parseAnswer(frame: Frame): SellerAnswer {
  if (frame.type === 'x402.response') {
    return { type: frame.type, message: responseOf(jsonOf(frame.data)) ?? refuse(frame) }
  }
  if (frame.type === 'x402.payment_required') return challengeOf(frame)
  if (frame.type === 'x402.error') return errorOf(frame)
  return parseMessage(frame) as Strict
}

/** Accepts any response that names its exchange and has a body. */
function responseOf(json: unknown): ReceivedResponse | undefined {
  const strict = X402Response.safeParse(json)
  if (strict.success) return { ...(strict.data as ReceivedResponse), oddities: [] }
  const named = z.looseObject({ correlation_id: z.string() }).safeParse(json)
  if (!named.success) return undefined
  const { correlation_id, body, receipt, ...fields } = named.data
  const decoded = bytesOf(body)
  if (decoded === undefined) return undefined
  const { shape } = X402Response
  return {
    version: '1.0',
    correlation_id,
    payment_id: (Hash32.safeParse(fields.payment_id).data as Hex | undefined) ?? '',
    tx_hash: (shape.tx_hash.safeParse(fields.tx_hash).data as Hex | undefined) ?? '',
    body: decoded.bytes.toString('base64'),
    seller_did: shape.seller_did.safeParse(fields.seller_did).data ?? '',
    seller_token_id: shape.seller_token_id.safeParse(fields.seller_token_id).data ?? '',
    receipt,
    oddities: [oddFields(strict.error, named.data), ...decoded.oddities].map((oddity) =>
      oddity.slice(0, ODDITY_LENGTH_MAX),
    ),
  }
}

function oddFields({ issues }: z.ZodError, fields: Readonly<Record<string, unknown>>): string {
  const names = new Set(issues.map(({ path }) => String(path[0])))
  const said = Array.from(names, (name) => {
    const value = Object.hasOwn(fields, name) ? (fields[name] ?? undefined) : undefined
    return `${name} ${value === undefined ? 'is missing' : value === '' ? 'is empty' : 'is not as the protocol says'}`
  })
  return said.join('; ')
}

/** Decodes base64 in either alphabet; any other text is taken as it is. */
function bytesOf(body: unknown): { bytes: Buffer; oddities: string[] } | undefined {
  if (body === undefined || body === null) return undefined
  if (typeof body !== 'string') {
    const text = textOf(body)
    if (text === undefined) return undefined
    return { bytes: Buffer.from(text), oddities: ['body is JSON and not base64: taken as its text'] }
  }
  const bare = body.replaceAll(/[\r\n]/g, '').replace(/={1,2}$/, '')
  const bytes = Buffer.from(bare, 'base64')
  const isBase64 = bytes.toString('base64url') === bare.replaceAll('+', '-').replaceAll('/', '_')
  if (isBase64) return { bytes, oddities: [] }
  return { bytes: Buffer.from(body), oddities: ['body is not base64: taken as the text itself'] }
}

/** Returns undefined for JSON that is too deep to be written again (T8). */
function textOf(body: unknown): string | undefined {
  try {
    return JSON.stringify(body)
  } catch {
    return undefined
  }
}

/**
 * Reads a challenge. A nonce without 0x comes from the original node, which settles before its agent runs without
 * saying so. The message is therefore completed with `settles_first`, as other sellers send it (D45).
 */
function challengeOf(frame: Frame): SellerAnswer {
  const json = jsonOf(frame.data) as { challenge_nonce?: unknown } | null
  const nonce = json?.challenge_nonce
  const isBare = typeof nonce === 'string' && BARE_NONCE.test(nonce)
  const { type, message } = parseMessage(
    isBare ? { ...frame, data: Buffer.from(JSON.stringify({ ...json, challenge_nonce: `0x${nonce}` })) } : frame,
  ) as Extract<AnyX402Message, { type: 'x402.payment_required' }>
  if (!isBare) return { type, message, challengeText: message.challenge_nonce }
  const { payment_requirements: asked } = message
  const extra = { ...(asked.extra as object | null | undefined), settles_first: true }
  return { type, message: { ...message, payment_requirements: { ...asked, extra } }, challengeText: nonce }
}

/** Reads an error. An error without a correlation id is about bytes that the seller could not read. */
function errorOf(frame: Frame): SellerAnswer {
  const json = jsonOf(frame.data)
  const unnamed = z.looseObject({ correlation_id: z.literal('').optional() }).safeParse(json)
  if (!unnamed.success) return parseMessage(frame) as Strict
  const named = JSON.stringify({ ...unnamed.data, correlation_id: NO_CORRELATION_ID })
  return parseMessage({ ...frame, data: Buffer.from(named) }) as Strict
}

function refuse(frame: Frame): never {
  parseMessage(frame)
  throw new PeerError('INVALID_MESSAGE', `${frame.type} cannot be read`)
}
