import { x402Client } from '@x402/core/client'
import { decodePaymentRequiredHeader, encodePaymentSignatureHeader } from '@x402/core/http'
import type { PaymentPayload, PaymentRequired } from '@x402/core/types'
import { ExactEvmScheme } from '@x402/evm'
import { privateKeyToAccount } from 'viem/accounts'
import type { Hex } from '../../src/schema/primitives.ts'

export type PublicAnswer = { status: number; text: string; json: unknown; headers: Headers }
type Sending = { method?: string; headers?: Record<string, string>; body?: string; signal?: AbortSignal }

/** Sends one request as it is. Nothing is paid by itself. */
export async function send(url: string, { method = 'POST', ...more }: Sending = {}): Promise<PublicAnswer> {
  const response = await fetch(url, { method, ...more })
  const text = await response.text()
  return { status: response.status, text, json: jsonOf(text), headers: response.headers }
}

export function sendTask(url: string, task: string, headers: Record<string, string> = {}): Promise<PublicAnswer> {
  return send(url, { headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify({ task }) })
}

/** Sends the same request again while the answer says so (docs/doors.md). A connection that breaks is an error. */
export async function patiently<T extends { status: number }>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    const answer = await ask()
    if (![429, 503, 504].includes(answer.status)) return answer
  }
}

/** What a request is asked to pay. */
export async function termsAt(url: string): Promise<PaymentRequired> {
  return decodePaymentRequiredHeader((await send(url)).headers.get('payment-required')!)
}

/** A payment for these terms by the client of others, as its header. `change` makes it another one before it is encoded. */
export async function signFor(
  terms: PaymentRequired,
  privateKey: Hex,
  change: (payload: PaymentPayload) => PaymentPayload = (payload) => payload,
): Promise<Record<'payment-signature', string>> {
  const client = new x402Client().register('eip155:84532', new ExactEvmScheme(privateKeyToAccount(privateKey)))
  return { 'payment-signature': encodePaymentSignatureHeader(change(await client.createPaymentPayload(terms))) }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
