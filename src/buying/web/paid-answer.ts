import { isUtf8 } from 'node:buffer'
import { parseJson } from '../../lib/json.ts'
import type { HttpAnswer } from '../../lib/pinned-http.ts'
import { checkReceipt } from '../../payments/receipt.ts'
import { checkX402Receipt } from '../../payments/x402-receipt.ts'
import type { Hex } from '../../schema/primitives.ts'
import { type WebOrder, WebSettlement } from '../../schema/web-purchase.ts'
import type { Order, PurchasePayment, Reservation } from '../../store/purchases.ts'
import type { Delivery } from '../response.ts'
import { decoded, readDemand, shown } from './terms.ts'
import { UnclearAnswer } from './unclear-answer.ts'

const TX_HASH = /^0x[0-9a-fA-F]{64}$/
const CONTENT_TYPE_LENGTH_MAX = 200

/** A result that came over HTTP, and what its order keeps of it. */
export type WebDelivery = Delivery & { web: WebOrder; paid?: PurchasePayment }
type Bought = { order: Pick<Order, 'task'> & { web: WebOrder }; reservation: Reservation }

/** The result of a request that nobody had to pay for. */
export function freeDelivery(answer: HttpAnswer, web: WebOrder): WebDelivery {
  return { ...contentOf(answer), txHash: undefined, web: { ...web, ...typeOf(answer) } }
}

/**
 * Reads the answer to a payment. Only a result is clear: after any other answer the seller can still settle the payment.
 *
 * @throws UnclearAnswer; `mayPass` if the same request may be answered better in a while
 */
export function paidDelivery(answer: HttpAnswer, { order, reservation }: Bought): WebDelivery {
  const { status, headers } = answer
  const header = headers['payment-response'] ?? headers['x-payment-response']
  const settled = header === undefined ? undefined : WebSettlement.safeParse(decoded(header)).data
  if (status < 200 || status > 299) throw unclear(answer, settled?.errorReason ?? readDemand(answer)?.read.error)
  const content = contentOf(answer)
  const { transaction = '' } = settled ?? {}
  const txHash = settled?.success === true && TX_HASH.test(transaction) ? (transaction.toLowerCase() as Hex) : undefined
  const { paymentId, amount } = reservation
  const receipts = receiptsOf(settled?.extensions ?? {}, content, { order, reservation })
  return {
    ...content,
    ...receipts.content,
    notes: [...content.notes, ...settlementNotes(header, settled)],
    txHash,
    web: { ...order.web, ...typeOf(answer), ...receipts.web },
    paid: { paymentId, amount, txHash, ...receipts.paid },
  }
}

function contentOf({ headers, body, isCut }: HttpAnswer): Omit<Delivery, 'txHash'> {
  const encoding = headers['content-encoding']
  const isPacked = encoding !== undefined && encoding !== 'identity'
  return {
    output: body.toString('utf8'),
    outputBytes: isUtf8(body) ? undefined : body,
    notes: [
      ...(isCut ? [`the result is longer than ${body.length} bytes and is cut there`] : []),
      ...(isPacked ? [`the result is packed: ${shown(encoding)}`] : []),
    ],
  }
}

function typeOf({ headers }: HttpAnswer): Pick<WebOrder, 'contentType'> {
  const type = headers['content-type']
  return type === undefined ? {} : { contentType: type.slice(0, CONTENT_TYPE_LENGTH_MAX) }
}

function settlementNotes(header: string | undefined, settled: WebSettlement | undefined): string[] {
  if (header === undefined) return ['the seller did not say what became of the payment']
  if (settled === undefined) return ['what the seller says of the payment cannot be read']
  if (settled.success) return []
  return [`the seller gave the result and says that the payment failed: ${shown(settled.errorReason ?? '')}`]
}

/**
 * The receipts of a result: that of x402, and that of a Stoa seller, which also says which task and result it is about. A
 * Stoa seller sends its result inside of JSON; its receipt is about the text in there.
 */
function receiptsOf(
  extensions: Readonly<Record<string, unknown>>,
  { output, outputBytes }: Pick<Delivery, 'output' | 'outputBytes'>,
  { order, reservation }: Bought,
): { content?: Pick<Delivery, 'output'>; web: Pick<WebOrder, 'receipt'>; paid: Partial<PurchasePayment> } {
  const { paymentId, requirements, envelope } = reservation
  const { network, payTo } = requirements
  const { url } = order.web.request
  const bought = { network, payTo, payer: envelope.payer }
  const canonical = checkX402Receipt(receiptIn(extensions['offer-receipt']), {
    ...bought,
    agentId: url,
    resourceUrl: url,
  })
  const web = canonical.ok ? { receipt: canonical.receipt } : {}
  const sent = receiptIn(extensions['stoa-receipt'])
  if (sent === undefined) return { web, paid: { receiptNote: '' } }
  const { origin, pathname } = new URL(url)
  const inside = textIn(output, 'result')
  const wanted = { ...bought, agentId: origin + pathname, paymentId, task: taskOf(order) }
  for (const text of inside === undefined ? [output] : [inside, output]) {
    const received = checkReceipt(sent, { ...wanted, result: text === output ? (outputBytes ?? text) : text })
    if (received.status !== 'valid') continue
    return { content: { output: text }, web, paid: { receipt: received.receipt } }
  }
  return {
    web,
    paid: { receiptNote: 'it is not about this task and result, or not signed by the account that is paid' },
  }
}

/** What a Stoa seller takes for the task: the text in a JSON body, also if the buyer wrote the body, or the whole body. */
function taskOf({ task = '', web }: Bought['order']): string {
  const { body } = web.request
  return (body === undefined ? undefined : textIn(body, 'task')) ?? body ?? task
}

function textIn(json: string, field: 'task' | 'result'): string | undefined {
  const text = (parseJson(json) as Partial<Record<string, unknown>> | null | undefined)?.[field]
  return typeof text === 'string' ? text : undefined
}

function receiptIn(extension: unknown): unknown {
  return (extension as { info?: { receipt?: unknown } | null } | null | undefined)?.info?.receipt
}

/** What the facilitators of x402 and Stoa say of a payment whose window has ended or has not begun. */
const UNTIMELY = /valid_(?:after|before)|not valid yet|expire/i

/** Says what a seller answered. Its body is not repeated: it may be anything. */
function unclear({ status, headers }: HttpAnswer, reason: string | undefined): UnclearAnswer {
  const clock = UNTIMELY.test(reason ?? '')
    ? ': its time may be over, or the clock of this node may be wrong (stoa doctor checks it)'
    : ''
  const why = reason === undefined || reason === '' ? '' : ` and says ${shown(reason)}${clock}`
  const to = headers.location
  const redirect =
    status >= 300 && status < 400 && to !== undefined ? ` with a redirect to ${shown(to)}, which gets no payment` : ''
  return new UnclearAnswer(`the seller answered ${status}${redirect} to the signed payment${why}`, {
    cause: { mayPass: status >= 500 || status === 408 || status === 409 || status === 425 || status === 429 },
  })
}
