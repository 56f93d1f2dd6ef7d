import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ReceiptSigner } from '../../payments/receipt-signer.ts'
import { type DoorAnswer, type DoorSales, freeCaller } from '../../protocols/doors/door-sales.ts'
import { encodeHeader, readPaymentHeader, type SentPayment } from '../../protocols/doors/payment-header.ts'
import { responseOf, settledResponse, unsettledResponse } from '../../protocols/doors/settle-response.ts'
import {
  type AgentText,
  type DoorTerms,
  PAYMENT_REQUIRED,
  type Resource,
  type Terms,
} from '../../protocols/doors/terms.ts'
import { PeerError } from '../../protocols/peer-error.ts'
import { hasRoomFor } from '../../protocols/x402/admit.ts'
import type { PaidRunDeps, ServedAgent } from '../../protocols/x402/exchange.ts'
import { runFree } from '../../protocols/x402/free-run.ts'
import { doorCaller } from '../../schema/door.ts'
import { PublicError } from './public-error.ts'
import { readTask, requestDigest, type TaskForm } from './task-body.ts'

export type AgentSaleDeps = {
  sales: PaidRunDeps
  doorSales: DoorSales
  terms: DoorTerms
  signer: Pick<ReceiptSigner, 'signX402'>
  /** Where this listener is reached from outside, without a slash at the end. */
  publicUrl(): string
  textOf(agentId: string): AgentText | undefined
}

/** An agent that was asked for, and the payment that came with the request. */
export type Asked = {
  agent: ServedAgent
  text: AgentText
  resource: Resource
  path: string
  sent: SentPayment | undefined
}

type DoorRefusal = Exclude<DoorAnswer, { kind: 'result' }>

/** Seconds after which a client may ask again. */
const RETRY_SECONDS = { busy: 5, pending: 5, limited: 2 }
/** Stands for all callers of this door where only the door counts. */
const ANYBODY = doorCaller('http', '')

/** Sells agents by x402 over HTTP. It knows nothing of a caller but its payment. */
export function createAgentSale({ sales, doorSales, terms, signer, publicUrl, textOf }: AgentSaleDeps) {
  const termsOf = ({ agent, text, resource }: Asked) => terms.of(agent, text, resource)

  /** @throws PublicError NOT_FOUND, BUSY */
  function find(agentId: string, headers: FastifyRequest['headers']): Asked {
    const path = `/x402/${agentId}`
    const agent = agentOf(agentId)
    const text = textOf(agentId)
    if (agent === undefined || text === undefined) {
      throw new PublicError('NOT_FOUND', 'this node sells no agent with this id: GET /x402 lists those that it sells')
    }
    const resource = {
      url: publicUrl() + path,
      mimeType: 'application/json',
      isUpfront: sales.settleFirst,
      isListed: true,
    }
    return { agent, text, resource: resource as Resource, path, sent: sentIn(headers) }
  }

  function agentOf(agentId: string): ServedAgent | undefined {
    try {
      return sales.agents.find(agentId)
    } catch (error) {
      if (error instanceof PeerError) throw busy(error.message)
      throw error
    }
  }

  return {
    find,
    /** Answers what needs no body: an unpaid request, one with a payment that cannot be meant, and all where no slot is free. */
    answerEarly(asked: Asked, reply: FastifyReply): boolean {
      const { agent, sent } = asked
      if (sent === undefined && !hasRoomFor(ANYBODY, sales)) {
        throw busy('all run slots are taken: nothing was charged')
      }
      if (agent.amount === 0n) return false
      if (sent === undefined) {
        askForPayment(termsOf(asked), PAYMENT_REQUIRED, reply)
        return true
      }
      if (sent.kind === 'unreadable') {
        throw new PublicError('PAYMENT_UNREADABLE', `${sent.reason}. Nothing was charged`, { settlement: 'none' })
      }
      if (sent.kind === 'exact') return false
      askForPayment(termsOf(asked), sent.reason, reply)
      return true
    },
    /** @returns the kind of the answer, for the limits. @throws PublicError */
    async sell(
      asked: Asked,
      body: { bytes: Buffer; form: TaskForm },
      reply: FastifyReply,
    ): Promise<DoorAnswer['kind']> {
      const { agent, sent, path, resource } = asked
      const input = readTask(body.bytes, body.form)
      if (agent.amount === 0n || sent?.kind !== 'exact') {
        const signal = leavingSignal(reply)
        const output = await runFree(agent, input, freeCaller('http', signal), sales).catch(asPublicError)
        sendResult(output, body.form, reply)
        return 'result'
      }
      const { resourceUrl, payment, version } = sent
      const boundTo = requestDigest(path, body.form, body.bytes)
      const isOther = resourceUrl !== undefined && resourceUrl !== resource.url
      const request = { door: 'http', agentId: agent.id, input, payment, boundTo, isOther } as const
      const answer = await doorSales.sell(request)
      if (answer.kind === 'result') {
        const bought = { agentId: agent.id, network: payment.network, resourceUrl: resource.url }
        const response = responseOf(version, settledResponse(answer, bought, signer))
        reply.header(responseHeader(version), encodeHeader(response))
        sendResult(answer.output, body.form, reply)
      } else refuse(answer, { asked, version }, reply)
      return answer.kind
    },
  }

  function refuse(
    answer: DoorRefusal,
    { asked, version }: { asked: Asked; version: 1 | 2 },
    reply: FastifyReply,
  ): void {
    if (answer.kind !== 'refused' && answer.kind !== 'unsettled') throw errorOf(answer)
    if (answer.kind === 'unsettled') {
      const response = unsettledResponse(answer, sales.asset.network)
      reply.header(responseHeader(version), encodeHeader(responseOf(version, response)))
    }
    askForPayment(termsOf(asked), answer.reason, reply)
  }
}

export type AgentSale = ReturnType<typeof createAgentSale>

function responseHeader(version: 1 | 2): string {
  return version === 2 ? 'payment-response' : 'x-payment-response'
}

/** @throws PublicError if both versions of the header are there */
function sentIn(headers: FastifyRequest['headers']): SentPayment | undefined {
  const [v2, v1] = [headers['payment-signature'], headers['x-payment']].map((line) => [line].flat().join(', '))
  if (v2 !== '' && v1 !== '') {
    throw new PublicError('PAYMENT_UNREADABLE', 'send PAYMENT-SIGNATURE or X-PAYMENT, not both', { settlement: 'none' })
  }
  const header = v2 || v1
  return header === undefined || header === '' ? undefined : readPaymentHeader(header)
}

function askForPayment(terms: Terms, error: string, reply: FastifyReply): void {
  const header = error === PAYMENT_REQUIRED ? terms.header : encodeHeader(terms.v2(error))
  reply.code(402).header('payment-required', header)
  reply.type('application/json').send(JSON.stringify(terms.v1(error)))
}

function sendResult(output: string, form: TaskForm, reply: FastifyReply): void {
  reply.header('cache-control', 'no-store, private')
  if (form === 'text') reply.type('text/plain; charset=utf-8').send(output)
  else reply.type('application/json').send(JSON.stringify({ result: output }))
}

function busy(reason: string): PublicError {
  return new PublicError('BUSY', reason, { settlement: 'none', retryAfterSeconds: RETRY_SECONDS.busy })
}

function errorOf(answer: Exclude<DoorRefusal, { kind: 'refused' | 'unsettled' }>): PublicError {
  const { kind, reason } = answer
  switch (kind) {
    case 'used':
      return new PublicError('PAYMENT_USED', reason)
    case 'pending':
      return new PublicError('SETTLEMENT_UNKNOWN', reason, {
        ...{ settlement: 'unknown', retryAfterSeconds: RETRY_SECONDS.pending },
      })
    case 'failed':
      return new PublicError('AGENT_FAILED', failedText(reason, answer.settlement), { settlement: answer.settlement })
    case 'gone':
      return new PublicError('RESULT_GONE', reason, { settlement: answer.settlement })
    case 'busy':
      return busy(`${reason}; nothing was charged: the same payment may be sent again`)
    case 'limited':
      return new PublicError('TOO_MANY_REQUESTS', reason, {
        ...{ settlement: 'none', retryAfterSeconds: RETRY_SECONDS.limited },
      })
    case 'unknown':
      return new PublicError('NOT_FOUND', reason, { settlement: 'none' })
  }
}

function failedText(reason: string, settlement: 'none' | 'unknown' | 'settled'): string {
  if (settlement === 'none') return `${reason}; nothing is charged: sign a new payment to try again`
  return `${reason}; the payment is ${settlement === 'settled' ? 'settled' : 'under way'}: send the same request with the same payment again, and the agent runs again`
}

/** Nobody waits for a free run when its caller has left. */
function leavingSignal(reply: FastifyReply): AbortSignal {
  const left = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) left.abort(new Error('the caller has left'))
  })
  return left.signal
}

function asPublicError(error: unknown): never {
  if (!(error instanceof PeerError)) throw error
  if (error.code === 'OVERLOADED') throw busy(error.message)
  throw new PublicError('AGENT_FAILED', error.message)
}
