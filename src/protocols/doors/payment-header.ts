import type * as z from 'zod'
import { parseJson } from '../../lib/json.ts'
import { CHANNEL_SCHEME } from '../../schema/channel.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import { ChannelPayload, ExactPayment, networkOfV1, PaymentKind } from '../../schema/x402-http.ts'
import type { Accepted } from './accepted.ts'

/** Characters of a header with a payment. With the extensions that clients echo, it is about 4,000. */
const PAYMENT_HEADER_LENGTH_MAX = 12_000

/** The versions of x402 that a buyer may speak. */
export type X402Version = 1 | 2

/** A payment as its buyer sent it over HTTP or MCP. */
export type SentPayment =
  /** `resourceUrl`, `accepted`: what the buyer says that it pays for, and for which terms. Nothing proves it. v1 says no terms. */
  | {
      kind: 'exact'
      version: X402Version
      payment: PaymentEnvelope
      resourceUrl: string | undefined
      accepted: Accepted | undefined
    }
  /** A call on a payment channel, or a refund of one. */
  | { kind: 'channel'; version: 2; network: string; payload: ChannelPayload; accepted: Accepted }
  /** A payment that this seller did not ask for. */
  | { kind: 'other'; version: X402Version; reason: string }
  | { kind: 'unreadable'; reason: string }

/** Reads the header of a paid request: base64 of JSON. */
export function readPaymentHeader(header: string): SentPayment {
  if (header.length > PAYMENT_HEADER_LENGTH_MAX) {
    return unreadable(`the payment is longer than ${PAYMENT_HEADER_LENGTH_MAX} characters`)
  }
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(header)) return unreadable('the payment is not base64 of the standard alphabet')
  const json = parseJson(Buffer.from(header, 'base64'))
  return json === undefined ? unreadable('the payment is not base64 of JSON in UTF-8') : readPayment(json)
}

/** Reads a payment of x402 v1 or v2. */
export function readPayment(json: unknown): SentPayment {
  const kind = PaymentKind.safeParse(json)
  if (!kind.success) return unreadable('it is not a payment of x402 version 1 or 2')
  const { x402Version: version } = kind.data
  const { scheme, network: named } = kind.data.x402Version === 2 ? kind.data.accepted : kind.data
  if (scheme === CHANNEL_SCHEME && version === 2) {
    const channel = ChannelPayload.safeParse((json as { payload?: unknown }).payload)
    if (!channel.success) return unreadable(firstIssue(channel.error))
    return { kind: 'channel', version, network: named, payload: channel.data, accepted: acceptedIn(json) }
  }
  if (scheme !== 'exact') return { kind: 'other', version, reason: `the scheme must be exact, not ${scheme}` }
  const exact = ExactPayment.safeParse(json)
  if (!exact.success) return unreadable(firstIssue(exact.error))
  const { payload, resource } = exact.data
  return {
    kind: 'exact',
    version,
    payment: {
      x402_version: 2,
      scheme,
      network: version === 1 ? networkOfV1(named) : named,
      server_nonce: 'preemptive',
      payer: payload.authorization.from,
      payload,
    },
    resourceUrl: resource?.url,
    accepted: version === 2 ? acceptedIn(json) : undefined,
  }
}

/** The value of a header of x402: base64 of JSON. */
export function encodeHeader(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64')
}

function acceptedIn(json: unknown): Accepted {
  return (json as { accepted: Accepted }).accepted
}

function unreadable(reason: string): SentPayment {
  return { kind: 'unreadable', reason }
}

function firstIssue({ issues: [issue] }: z.ZodError): string {
  const path = issue?.path.join('.') ?? ''
  return `${path === '' ? '' : `${path}: `}${issue?.message}`.slice(0, 300)
}
