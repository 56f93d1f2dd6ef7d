import { isoTime } from '../lib/clock.ts'
import type { Listing } from '../schema/listing.ts'
import type { OrderRecord } from '../schema/order.ts'
import type { Order, StoredReservation } from '../store/purchases.ts'
import { signedPayment } from './payment-view.ts'

/** Returns the names of an agent and its seller, if known. */
export type NamesOf = (agentId: string) => Pick<Listing, 'name' | 'seller_name'> | undefined

/** An order as the API shows it (D18), with its payment. */
export function orderRecord(
  order: Order,
  reservation: StoredReservation | undefined,
  known?: ReturnType<NamesOf>,
): OrderRecord {
  const agentName = order.agentName ?? known?.name
  const sellerName = order.sellerName ?? known?.seller_name
  return {
    id: order.id,
    agent_id: order.agentId,
    ...(agentName !== undefined && { agent_name: agentName }),
    seller_id: order.sellerId ?? null,
    ...(sellerName !== undefined && { seller_name: sellerName }),
    price: order.price,
    price_atomic: order.price.toString(),
    status: order.status,
    task: order.task ?? null,
    ...(order.output !== undefined && resultFields({ ...order, output: order.output })),
    ...(order.error !== undefined && { error: order.error }),
    ...(order.correlationId !== undefined && { correlation_id: order.correlationId }),
    ...(reservation !== undefined && { payment: signedPayment(reservation) }),
    ...(order.approvalId !== undefined && { approval_id: order.approvalId }),
    ...(order.workflowId !== undefined && { workflow_id: order.workflowId }),
    ...(order.stepId !== undefined && { step_id: order.stepId }),
    ...(order.boughtFor !== undefined && {
      bought_for: { agent_id: order.boughtFor.agentId, agent_name: order.boughtFor.agentName },
    }),
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
