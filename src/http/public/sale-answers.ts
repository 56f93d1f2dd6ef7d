import type { FastifyReply } from 'fastify'
import type { DoorAnswer, Settlement } from '../../protocols/doors/door-answers.ts'
import { encodeHeader, type X402Version } from '../../protocols/doors/payment-header.ts'
import { failedText, waitText } from '../../protocols/doors/refusal-texts.ts'
import { PAYMENT_REQUIRED, type Terms } from '../../protocols/doors/terms.ts'
import { PublicError } from './public-error.ts'
import type { TaskForm } from './task-body.ts'

export type DoorRefusal = Exclude<DoorAnswer, { kind: 'result' }>

/** Seconds after which a client may ask again. */
const RETRY_SECONDS = { busy: 5, pending: 5, limited: 2 }

/** The header that tells the buyer what became of its payment. */
export function responseHeader(version: X402Version): string {
  return version === 2 ? 'payment-response' : 'x-payment-response'
}

/** One answer for both versions: v2 reads the header, v1 the body. */
export function askForPayment(terms: Terms, error: string, reply: FastifyReply, channel?: object): void {
  const header = error === PAYMENT_REQUIRED ? terms.header : encodeHeader(terms.v2(error, channel))
  reply.code(402).header('payment-required', header)
  reply.type('application/json').send(JSON.stringify(terms.v1(error)))
}

export function sendResult(output: string, form: TaskForm, reply: FastifyReply): void {
  reply.header('cache-control', 'no-store, private')
  if (form === 'text') reply.type('text/plain; charset=utf-8').send(output)
  else reply.type('application/json').send(JSON.stringify({ result: output }))
}

export function busy(reason: string, settlement: Settlement = 'none'): PublicError {
  return new PublicError('BUSY', reason, { settlement, retryAfterSeconds: RETRY_SECONDS.busy })
}

export function errorOf(answer: Exclude<DoorRefusal, { kind: 'refused' | 'unsettled' }>): PublicError {
  const { kind, reason } = answer
  switch (kind) {
    case 'used':
      return new PublicError('PAYMENT_USED', reason)
    case 'pending': {
      const retryAfterSeconds = RETRY_SECONDS.pending
      return new PublicError('SETTLEMENT_UNKNOWN', reason, { settlement: 'unknown', retryAfterSeconds })
    }
    case 'failed': {
      const { settlement } = answer
      return new PublicError('AGENT_FAILED', failedText(reason, settlement), { settlement })
    }
    case 'gone':
      return new PublicError('RESULT_GONE', reason, { settlement: answer.settlement })
    case 'busy':
      return busy(waitText(reason, answer.settlement), answer.settlement)
    case 'limited': {
      const { settlement } = answer
      const more = { settlement, retryAfterSeconds: RETRY_SECONDS.limited }
      return new PublicError('TOO_MANY_REQUESTS', waitText(reason, settlement), more)
    }
    case 'unknown':
      return new PublicError('NOT_FOUND', reason, { settlement: 'none' })
  }
}
