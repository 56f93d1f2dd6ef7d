import type { FastifyRequest } from 'fastify'
import { readPaymentHeader, type SentPayment } from '../../protocols/doors/payment-header.ts'
import type { AgentText, Resource } from '../../protocols/doors/terms.ts'
import type { ServedAgent } from '../../protocols/x402/exchange.ts'
import { PublicError } from './public-error.ts'

/** What a request is for, and the payment that came with it. */
export type Asked = {
  agentId: string
  /** Undefined: it is not sold. A caller that has paid for it may still ask for the result. */
  offer: { agent: ServedAgent; text: AgentText } | undefined
  /** Why it is not sold now, if it will be again. */
  away: string | undefined
  resource: Resource
  path: string
  isStreamed: boolean
  sent: SentPayment | undefined
}

export function notSold(): PublicError {
  return new PublicError('NOT_FOUND', 'this node sells no agent with this id: GET /x402 lists those that it sells')
}

/** @throws PublicError if both versions of the header are there */
export function sentIn(headers: FastifyRequest['headers']): SentPayment | undefined {
  const [v2, v1] = [headers['payment-signature'], headers['x-payment']].map((line) => [line].flat().join(', '))
  if (v2 !== '' && v1 !== '') {
    throw new PublicError('PAYMENT_UNREADABLE', 'send PAYMENT-SIGNATURE or X-PAYMENT, not both', { settlement: 'none' })
  }
  const header = v2 || v1
  return header === undefined || header === '' ? undefined : readPaymentHeader(header)
}

/** Why a payment cannot be meant. */
export function reasonOf(sent: Exclude<SentPayment, { kind: 'exact' }>): string {
  return sent.kind === 'channel' ? 'the scheme must be exact here' : sent.reason
}
