import { isoTime } from '../lib/clock.ts'
import { defined } from '../lib/defined.ts'
import type { Listing } from '../schema/listing.ts'
import type { OrderRecord } from '../schema/order.ts'
import type { WebOrder, WebPurchase } from '../schema/web-purchase.ts'
import type { Order, StoredReservation } from '../store/purchases.ts'
import { signedPayment } from './payment-view.ts'

export type NamesOf = (agentId: string) => Pick<Listing, 'name' | 'seller_name'> | undefined

/** An order as the API shows it (D18), with its payment. */
export function orderRecord(
  order: Order,
  reservation: StoredReservation | undefined,
  known?: ReturnType<NamesOf>,
): OrderRecord {
  const { error, correlationId, approvalId, workflowId, stepId, boughtFor } = order
  return {
    id: order.id,
    agent_id: order.agentId,
    ...defined({ agent_name: order.agentName ?? known?.name }),
    seller_id: order.sellerId ?? null,
    ...defined({ seller_name: order.sellerName ?? known?.seller_name }),
    price: order.price,
    price_atomic: order.price.toString(),
    status: order.status,
    task: order.task ?? null,
    ...(order.output !== undefined && resultFields({ ...order, output: order.output })),
    ...defined({ error, correlation_id: correlationId, payment: reservation && signedPayment(reservation) }),
    ...defined({ channel: order.channelWish, web: order.web && webPurchase(order.web) }),
    ...defined({ approval_id: approvalId, workflow_id: workflowId, step_id: stepId }),
    ...(boughtFor !== undefined && { bought_for: { agent_id: boughtFor.agentId, agent_name: boughtFor.agentName } }),
    ...(order.cancelRequested === true && { cancel_requested: true }),
    created_at: isoTime(order.createdAt),
    updated_at: isoTime(order.updatedAt),
  }
}

/** A result as the API shows it. Output that is not UTF-8 also comes in full as base64. */
export function resultFields(result: Pick<Order, 'outputBytes' | 'notes'> & { output: string }) {
  const { output, outputBytes, notes } = result
  return {
    output,
    ...(outputBytes !== undefined && { output_base64: Buffer.from(outputBytes).toString('base64') }),
    ...(notes !== undefined && notes.length > 0 && { notes: [...notes] }),
  }
}

/** What is shown of a purchase over HTTP. Not the headers and the body: they may hold keys of the buyer. */
export function webPurchase({ request, terms, contentType, receipt }: WebOrder): WebPurchase {
  const { url, method } = request
  return { url, method, ...defined({ x402_version: terms?.version, content_type: contentType, receipt }) }
}
