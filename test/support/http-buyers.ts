/** Clients of others that buy over HTTP: each signs with a real account and knows nothing of Stoa. */
import { wrapAxiosWithPayment } from '@x402/axios'
import { x402Client } from '@x402/core/client'
import { ExactEvmScheme } from '@x402/evm'
import { decodePaymentResponseHeader, wrapFetchWithPayment } from '@x402/fetch'
import axios from 'axios'
import { privateKeyToAccount } from 'viem/accounts'
import { createSigner, decodeXPaymentResponse, wrapFetchWithPayment as wrapFetchV1 } from 'x402-fetch'
import type { Hex } from '../../src/schema/primitives.ts'

type Answer = { status: number; body: string; headers: Headers; settled: unknown }
type Ask = (url: string, body: object | string) => Promise<Answer>

const NETWORK = 'eip155:84532'
const requestOf = (body: object | string) =>
  typeof body === 'string'
    ? { method: 'POST', headers: { 'content-type': 'text/plain' }, body }
    : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }

async function answerOf(response: Response): Promise<Answer> {
  const v2 = response.headers.get('payment-response')
  const v1 = response.headers.get('x-payment-response')
  const settled = v2 === null ? (v1 === null ? undefined : decodeXPaymentResponse(v1)) : decodePaymentResponseHeader(v2)
  return { status: response.status, body: await response.text(), headers: response.headers, settled }
}

/** `@x402/fetch`: x402 v2. */
export function fetchBuyer(privateKey: Hex): Ask {
  const client = new x402Client().register(NETWORK, new ExactEvmScheme(privateKeyToAccount(privateKey)))
  const pay = wrapFetchWithPayment(fetch, client)
  return async (url, body) => answerOf(await pay(url, requestOf(body)))
}

/** `x402-fetch`: x402 v1. */
export async function oldFetchBuyer(privateKey: Hex): Promise<Ask> {
  const pay = wrapFetchV1(fetch, await createSigner('base-sepolia', privateKey))
  return async (url, body) => answerOf(await pay(url, requestOf(body)))
}

/** `@x402/axios`: x402 v2, over Node's own HTTP client. */
export function axiosBuyer(privateKey: Hex): Ask {
  const client = new x402Client().register(NETWORK, new ExactEvmScheme(privateKeyToAccount(privateKey)))
  const paying = axios.create({ responseType: 'text', transformResponse: (text: string) => text })
  const pay = wrapAxiosWithPayment(paying, client as never)
  return async (url, body) => {
    const { headers, body: data } = requestOf(body)
    const { status, data: text, headers: got } = await pay.post(url, data, { headers })
    const line = String(got['payment-response'])
    return { status, body: text, headers: new Headers(), settled: decodePaymentResponseHeader(line) }
  }
}
