import type { FastifyReply } from 'fastify'
import type { ReceiptSigner } from '../../payments/receipt-signer.ts'
import type { ChannelDoor } from '../../protocols/doors/channel-door.ts'
import type { PaymentCheck } from '../../protocols/doors/payment-check.ts'
import { encodeHeader } from '../../protocols/doors/payment-header.ts'
import { channelResponse } from '../../protocols/doors/settle-response.ts'
import type { DoorTerms } from '../../protocols/doors/terms.ts'
import type { PaidRunDeps } from '../../protocols/x402/exchange.ts'
import { type Asked, notSold } from './asked.ts'
import { errorOf, responseHeader, sendResult } from './sale-answers.ts'
import { readTask, requestDigest, type TaskForm } from './task-body.ts'

type ChannelSaleDeps = {
  /** Undefined: this seller takes no payment channels. */
  door: ChannelDoor | undefined
  terms: DoorTerms
  sales: Pick<PaidRunDeps, 'asset'>
  signer: Pick<ReceiptSigner, 'signX402'>
  /** Asks for a payment again. */
  ask(asked: Asked, error: string, reply: FastifyReply, channel?: object): void
}

/** Sells agents on payment channels over HTTP. */
export function createChannelSale({ door, sales, signer, terms, ask }: ChannelSaleDeps) {
  /** @throws PublicError */
  async function sell(
    asked: Asked,
    { bytes, form, check }: { bytes: Buffer; form: TaskForm; check: PaymentCheck },
    reply: FastifyReply,
  ): Promise<void> {
    const { sent, agentId, resource } = asked
    if (sent?.kind !== 'channel' || door === undefined) throw new Error('this payment is on no channel')
    const { payload } = sent
    // A refund runs nothing.
    const input = payload.type === 'refund' ? '' : readTask(bytes, form)
    const boundTo = requestDigest(asked.path, form, bytes)
    const request = { agentId, input, network: sent.network, payload, boundTo, check }
    const answer = await door.sell({ ...request, mismatch: terms.mismatch(sent, asked.resource, asked.offer) })
    switch (answer.kind) {
      case 'sold':
      case 'refunded': {
        const { network } = sales.asset
        const response = channelResponse(answer, { agentId, network, resourceUrl: resource.url }, signer)
        reply.header(responseHeader(2), encodeHeader(response))
        if (answer.kind === 'sold') sendResult(answer.output, form, reply)
        else reply.type('application/json').send('{}')
        break
      }
      case 'corrected':
        ask(asked, answer.reason, reply, answer.correction)
        break
      case 'refused':
        check.refused()
        ask(asked, answer.reason, reply)
        break
      default:
        throw errorOf(answer)
    }
  }

  /** A request without a task: clients of channels ask by GET for the terms, and for refunds. @throws PublicError */
  async function answerGet(
    asked: Asked,
    { about, check }: { about: object; check: PaymentCheck },
    reply: FastifyReply,
  ): Promise<void> {
    const { offer, sent, resource } = asked
    if (sent?.kind === 'channel' && sent.payload.type === 'refund' && door !== undefined) {
      return await sell(asked, { bytes: Buffer.alloc(0), form: 'json', check }, reply)
    }
    if (offer === undefined) throw notSold()
    const kept = offer.agent.amount === 0n ? undefined : terms.of(offer.agent, offer.text, resource)
    if (kept?.takesChannels === true) reply.code(402).header('payment-required', kept.header)
    reply.type('application/json').send(JSON.stringify(about))
  }

  return { isOpen: door !== undefined, sell, answerGet }
}
