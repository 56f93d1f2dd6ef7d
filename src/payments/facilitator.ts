import type { Pool } from 'undici'
import { reasonOf } from '../lib/errors.ts'
import { parseJson } from '../lib/json.ts'
import { oneLine } from '../lib/text/one-line.ts'
import { SettleAnswer, SupportedAnswer } from '../schema/facilitator.ts'
import type { PaymentRequirements, SignedAuthorization } from '../schema/payment.ts'
import { Hash32, type Hex } from '../schema/primitives.ts'
import { assetOf } from './assets.ts'
import type { FacilitatorHeaders } from './facilitator-token.ts'
import { httpCall } from './http-call.ts'
import { checksumAddress } from './secp256k1.ts'

/**
 * `refused` is final. `unclear` may have reached the chain: ask the chain or try again. `down`: the facilitator or its
 * RPC failed; probably nothing was sent, but ask the chain. `unreached`: no connection was made, so nothing was sent.
 */
export type SettleOutcome =
  | { kind: 'settled'; txHash: Hex }
  | { kind: 'refused' | 'unclear' | 'down' | 'unreached'; reason: string }

/** Client of an x402 v2 facilitator (D34). Failures of the facilitator are outcomes, not exceptions. */
export interface Facilitator {
  settle(signed: SignedAuthorization, requirements: PaymentRequirements, signal: AbortSignal): Promise<SettleOutcome>
  /** True if the facilitator settles `exact` payments on a network. Throws if the request fails. */
  supports(network: string, signal: AbortSignal): Promise<boolean>
  /** The facilitators that may take payment channels, in the order in which they are asked. Undefined: none. */
  readonly channels?: readonly ChannelFacilitator[]
  close(): Promise<void>
}

/** A facilitator as the relay of the scheme `batch-settlement`. It sends what is signed, and is not believed. */
export interface ChannelFacilitator {
  /** True if it takes payment channels on a network. Throws if the request fails. */
  supports(network: string, signal: AbortSignal): Promise<boolean>
  /** @param body a request of the scheme as JSON */
  settle(body: string, signal: AbortSignal): Promise<SettleOutcome>
}

const CONNECTIONS_MAX = 64
const ANSWER_BYTES_MAX = 64 * 1024
const REASON_CHARS_MAX = 200
/** A signature in hex has 130 characters. A payment in base64 has more. */
const PAYMENT_LIKE = /[\w+/=-]{100,}/g
/** Error codes for a failed connection. Some also end an open connection: see `isUnreached`. */
const NO_CONNECTION = ['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT', 'ENOTFOUND', 'EAI_AGAIN']
const CONNECTING = ['connect', 'getaddrinfo']

/**
 * Reasons after which the same authorization can never settle. All other refusals are tried again. The strings come
 * from the reference facilitator and from the specification before it: both sets are in use.
 */
const FINAL_REASONS = new Set([
  'invalid_exact_evm_recipient_mismatch',
  'invalid_exact_evm_payload_recipient_mismatch',
  'invalid_exact_evm_payload_authorization_value_mismatch',
  'invalid_exact_evm_authorization_value',
  'invalid_exact_evm_payload_authorization_valid_before',
  'invalid_exact_evm_token_name_mismatch',
  'invalid_exact_evm_token_version_mismatch',
  'invalid_exact_evm_insufficient_balance',
  'insufficient_funds',
])

/** Refusals that are the payer's fault (D45). */
export const NO_FUNDS = /insufficient_(balance|funds)/

/**
 * Answers of facilitators whose RPC is down. The reference facilitator then calls the signature invalid, because it
 * cannot check whether the payer has code. This node has recovered the signer itself.
 */
const DOWN_REASONS = new Set([
  'invalid_exact_evm_signature',
  'invalid_exact_evm_payload_signature',
  'asset_not_deployed_contract',
  'unexpected_settle_error',
  'unexpected_verify_error',
])
/** Error messages of a facilitator that could not reach its RPC, or was rate limited there. */
const RPC_TROUBLE =
  /HTTP request failed|fetch failed|network error|socket|timed? ?out|ECONN|ENOTFOUND|EAI_AGAIN|rate limit|unavailable|Status: (429|5\d\d)/i
const TOO_MANY_REQUESTS = 429

export function createFacilitator(options: { url: string; headers?: FacilitatorHeaders | undefined }): Facilitator {
  const { origin, host, pathname } = new URL(options.url)
  const base = pathname.replace(/\/$/, '')
  let pool: Promise<Pool> | undefined
  // Loading undici takes 100 ms: only a node that settles loads it.
  const connect = () => {
    pool ??= import('undici').then(({ Pool }) => new Pool(origin, { connections: CONNECTIONS_MAX, pipelining: 1 }))
    return pool
  }

  async function call(method: 'GET' | 'POST', path: string, body: string | null, signal: AbortSignal) {
    const headers = options.headers?.(method, host, base + path) ?? {}
    const request = { method, path: base + path, body, answerBytesMax: ANSWER_BYTES_MAX, headers }
    return httpCall(await connect(), request, signal)
  }

  async function settle(body: string, signal: AbortSignal): Promise<SettleOutcome> {
    try {
      return outcomeOf(await call('POST', '/settle', body, signal))
    } catch (error) {
      if (isUnreached(error))
        return { kind: 'unreached', reason: short(`the facilitator cannot be reached: ${reasonOf(error)}`) }
      return { kind: 'unclear', reason: short(`no answer from the facilitator: ${reasonOf(error)}`) }
    }
  }

  async function supports(scheme: string, network: string, signal: AbortSignal): Promise<boolean> {
    const { status, text } = await call('GET', '/supported', null, signal)
    if (status !== 200) throw new Error(`the facilitator answered GET /supported with ${status}`)
    const { kinds } = SupportedAnswer.parse(JSON.parse(text))
    return kinds.some((kind) => kind.x402Version === 2 && kind.scheme === scheme && kind.network === network)
  }

  return {
    settle: (signed, requirements, signal) => settle(settleBody(signed, requirements), signal),
    supports: (network, signal) => supports('exact', network, signal),
    channels: [{ settle, supports: (network, signal) => supports('batch-settlement', network, signal) }],
    async close() {
      await (await pool)?.destroy()
    },
  }
}

/** True if nothing was sent: a later failure has another `syscall`. @internal Exported for its test. */
export function isUnreached(error: unknown): boolean {
  const { code = '', syscall = '', errors } = error as { code?: string; syscall?: string; errors?: unknown[] }
  // One error for each address that was tried.
  if (errors !== undefined && errors.length > 0) return errors.every(isUnreached)
  return code === 'UND_ERR_CONNECT_TIMEOUT' || (NO_CONNECTION.includes(code) && CONNECTING.includes(syscall))
}

function settleBody({ signature, authorization }: SignedAuthorization, requirements: PaymentRequirements): string {
  const { name, version } = assetOf(requirements.network)!
  const { from, to, value, validAfter, validBefore } = authorization
  // Amounts and times are texts there. A replacer of JSON.stringify would be called for every value.
  const accepted = { ...requirements, amount: requirements.amount.toString(), extra: { name, version } }
  const texts = { value: value.toString(), validAfter: validAfter.toString(), validBefore: validBefore.toString() }
  // Payments stored by an older version may hold addresses as their buyers spelled them (D49).
  const spelled = { ...authorization, from: checksumAddress(from), to: checksumAddress(to), ...texts }
  const payload = { signature, authorization: spelled }
  return JSON.stringify({
    x402Version: 2,
    paymentPayload: { x402Version: 2, accepted, payload },
    paymentRequirements: accepted,
  })
}

/**
 * Reads the body at any status: facilitators answer a refusal with 200 or with 4xx. @internal Exported for its test.
 */
export function outcomeOf({ status, text }: { status: number; text: string }): SettleOutcome {
  const answer = SettleAnswer.safeParse(parseJson(text)).data
  const isAway = status >= 500 || status === TOO_MANY_REQUESTS
  if (answer === undefined) {
    const reason = `the facilitator answered ${status} but not as a facilitator answers a settlement`
    return { kind: isAway ? 'down' : 'unclear', reason }
  }
  const hash = Hash32.safeParse(answer.transaction)
  if (answer.success) {
    if (hash.success && status < 300) return { kind: 'settled', txHash: hash.data.toLowerCase() as Hex }
    return { kind: 'unclear', reason: `the facilitator answered ${status} with success but without a transaction hash` }
  }
  const reason = answer.errorReason ?? 'no reason given'
  if (FINAL_REASONS.has(reason)) return { kind: 'refused', reason: short(`the facilitator refuses: ${reason}`) }
  const isDown = isAway || DOWN_REASONS.has(reason) || RPC_TROUBLE.test(`${reason} ${answer.errorMessage ?? ''}`)
  // A facilitator that names a transaction has sent it: only the chain knows its result.
  const kind = isDown && !hash.success ? 'down' : 'unclear'
  return { kind, reason: short(`the facilitator could not settle: ${reason}`) }
}

/**
 * Reasons come from outside and go to logs and to the operator: limit their length, keep one line. A facilitator may
 * repeat the payment, and anyone who reads a payment can use it until it is settled. Hashes and accounts are shorter (T21).
 */
function short(reason: string): string {
  return oneLine(reason.replace(PAYMENT_LIKE, '[cut]'), REASON_CHARS_MAX)
}
