import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ReceiptSigner } from '../../payments/receipt-signer.ts'
import type { ChannelDoor } from '../../protocols/doors/channel-door.ts'
import type { DoorAnswer } from '../../protocols/doors/door-answers.ts'
import type { DoorSales } from '../../protocols/doors/door-sales.ts'
import type { PaymentCheck } from '../../protocols/doors/payment-check.ts'
import { encodeHeader, type SentPayment } from '../../protocols/doors/payment-header.ts'
import {
  responseOf,
  type SettleResponse,
  settledResponse,
  unsettledResponse,
} from '../../protocols/doors/settle-response.ts'
import { type AgentText, type DoorTerms, PAYMENT_REQUIRED, type Resource } from '../../protocols/doors/terms.ts'
import { PeerError } from '../../protocols/peer-error.ts'
import { hasRoomFor } from '../../protocols/x402/admit.ts'
import type { PaidRunDeps, ServedAgent } from '../../protocols/x402/exchange.ts'
import { doorCaller } from '../../schema/door.ts'
import type { Hex } from '../../schema/primitives.ts'
import { type Asked, notSold, reasonOf, sentIn } from './asked.ts'
import { createChannelSale } from './channel-sale.ts'
import { answerForNothing } from './free-answer.ts'
import { PublicError } from './public-error.ts'
import { askForPayment, busy, type DoorRefusal, errorOf, responseHeader, sendResult } from './sale-answers.ts'
import { sendShown } from './shown-answer.ts'
import { ShownOutput } from './shown-output.ts'
import { readTask, requestDigest, type TaskForm } from './task-body.ts'

type AgentSaleDeps = {
  sales: PaidRunDeps
  doorSales: DoorSales
  terms: DoorTerms
  signer: Pick<ReceiptSigner, 'signX402'>
  /** Undefined: this seller takes no payment channels. */
  channelDoor?: ChannelDoor | undefined
  /** Where this listener is reached from outside, without a slash at the end. */
  publicUrl(): string
  textOf(agentId: string): AgentText | undefined
}

type Body = { bytes: Buffer; form: TaskForm; check: PaymentCheck }

/** Stands for all callers of this door where only the door counts. */
const ANYBODY = doorCaller('http', '')

/** Sells agents by x402 over HTTP. It knows nothing of a caller but its payment. */
export function createAgentSale({ sales, doorSales, terms, signer, channelDoor, publicUrl, textOf }: AgentSaleDeps) {
  const channelSale = createChannelSale({ door: channelDoor, sales, signer, terms, ask })

  /** @throws PublicError NOT_FOUND, BUSY */
  function find(agentId: string, headers: FastifyRequest['headers'], { isStreamed = false } = {}): Asked {
    const path = `/x402/${agentId}${isStreamed ? '/stream' : ''}`
    const sent = sentIn(headers)
    const { agent, away } = agentOf(agentId, sent)
    const text = textOf(agentId)
    const isPaid = sent?.kind === 'exact' || sent?.kind === 'channel'
    if ((agent === undefined || text === undefined) && !isPaid) throw notSold()
    const resource: Resource = {
      url: publicUrl() + path,
      mimeType: isStreamed ? 'text/event-stream' : 'application/json',
      // What is shown cannot be kept back, so a stream is paid before it begins.
      isUpfront: isStreamed || sales.settleFirst,
      isListed: !isStreamed,
      // What is shown cannot be kept back, and a voucher is charged at the end.
      isOnChannels: !isStreamed,
    }
    return { agentId, offer: agent && text && { agent, text }, away, resource, path, isStreamed, sent }
  }

  function agentOf(agentId: string, sent: SentPayment | undefined): { agent?: ServedAgent | undefined; away?: string } {
    try {
      const agent = sales.agents.find(agentId)
      // This door takes single payments only.
      return agent?.isOnChannelsOnly === true ? {} : { agent }
    } catch (error) {
      if (!(error instanceof PeerError)) throw error
      if (sent?.kind === 'exact' || sent?.kind === 'channel') return { away: error.message }
      throw busy(error.message)
    }
  }

  function ask({ offer, resource, away }: Asked, error: string, reply: FastifyReply, channel?: object): void {
    if (offer === undefined) throw away === undefined ? notSold() : busy(away)
    askForPayment(terms.of(offer.agent, offer.text, resource), error, reply, channel)
  }

  /** Answers what needs no body: an unpaid request, a payment that cannot be meant, and all where no slot is free. */
  function answerEarly(asked: Asked, reply: FastifyReply): boolean {
    const { offer, sent } = asked
    if (sent === undefined && !hasRoomFor(ANYBODY, sales)) throw busy('all run slots are taken: nothing was charged')
    if (offer?.agent.amount === 0n || sent?.kind === 'exact') return false
    if (sent?.kind === 'unreadable') {
      throw new PublicError('PAYMENT_UNREADABLE', `${sent.reason}. Nothing was charged`, { settlement: 'none' })
    }
    if (sent?.kind === 'channel' && channelSale.isOpen && !asked.isStreamed) return false
    ask(asked, sent === undefined ? PAYMENT_REQUIRED : reasonOf(sent), reply)
    return true
  }

  /** @throws PublicError */
  async function sell(asked: Asked, body: Body, reply: FastifyReply): Promise<void> {
    const { offer, sent } = asked
    if (sent?.kind === 'channel' && channelSale.isOpen && offer?.agent.amount !== 0n) {
      return channelSale.sell(asked, body, reply)
    }
    const input = readTask(body.bytes, body.form)
    if (offer?.agent.amount === 0n) {
      const free = { agent: offer.agent, input, isStreamed: asked.isStreamed, form: body.form }
      return answerForNothing(free, reply, sales)
    }
    if (sent?.kind !== 'exact') throw notSold()
    const { payment } = sent
    const mismatch = terms.mismatch(sent, asked.resource, asked.offer)
    const boundTo = requestDigest(asked.path, body.form, body.bytes)
    const { check } = body
    const request = { door: 'http', agentId: asked.agentId, input, payment, boundTo, mismatch, check } as const
    if (asked.isStreamed) return sellShown(asked, request, reply, { doorSales, refuse, tellSettled, settledOf })
    const answer = await doorSales.sell(request)
    if (answer.kind !== 'result') refuse(answer, asked, reply)
    else {
      tellSettled(asked, settledOf(asked, answer), reply)
      sendResult(answer.output, body.form, reply)
    }
  }

  function settledOf({ agentId, resource }: Asked, answer: Extract<DoorAnswer, { kind: 'result' }>) {
    return settledResponse(answer, { agentId, network: sales.asset.network, resourceUrl: resource.url }, signer)
  }

  function tellSettled({ sent }: Asked, response: SettleResponse, reply: FastifyReply): void {
    const version = sent?.kind === 'exact' ? sent.version : 2
    reply.header(responseHeader(version), encodeHeader(responseOf(version, response)))
  }

  function refuse(answer: DoorRefusal, asked: Asked, reply: FastifyReply): void {
    if (answer.kind !== 'refused' && answer.kind !== 'unsettled') throw errorOf(answer)
    if (answer.kind === 'unsettled') tellSettled(asked, unsettledResponse(answer, sales.asset.network), reply)
    ask(asked, answer.reason, reply)
  }

  return { find, answerEarly, answerGet: channelSale.answerGet, sell }
}

type StreamSaleDeps = {
  doorSales: DoorSales
  refuse(answer: DoorRefusal, asked: Asked, reply: FastifyReply): void
  tellSettled(asked: Asked, response: SettleResponse, reply: FastifyReply): void
  settledOf(asked: Asked, answer: Extract<DoorAnswer, { kind: 'result' }>): SettleResponse
}

/** Settles, then shows the output while the agent works, then gives the result. The same request again gets the result. */
async function sellShown(
  asked: Asked,
  request: Parameters<DoorSales['sell']>[0],
  reply: FastifyReply,
  { doorSales, refuse, tellSettled, settledOf }: StreamSaleDeps,
): Promise<void> {
  const shown = new ShownOutput()
  const { promise: settled, resolve: onSettled } = Promise.withResolvers<Hex>()
  const payer = request.payment.payer
  const sold = doorSales
    .sell({ ...request, isUpfront: true, onOutput: shown.push, onSettled })
    .finally(() => shown.end())
  const first = await Promise.race([settled, sold])
  if (typeof first !== 'string' && first.kind !== 'result') {
    return refuse(first, asked, reply)
  }
  const { network } = request.payment
  const begun = { success: true, transaction: first as string, network, payer }
  tellSettled(asked, typeof first === 'string' ? begun : settledOf(asked, first), reply)
  const end = async () => {
    const answer = await sold
    if (answer.kind === 'result') return { result: answer.output, payment: settledOf(asked, answer) }
    const kinds = answer.kind === 'refused' || answer.kind === 'unsettled'
    return kinds ? new PublicError('AGENT_FAILED', answer.reason, { settlement: 'none' }) : errorOf(answer)
  }
  await sendShown(shown, end, reply)
}

export type AgentSale = ReturnType<typeof createAgentSale>
