import { smallest } from '../lib/bigints.ts'
import type { Logger } from '../lib/logger.ts'
import type { ReceivedResponse } from '../protocols/x402/answers.ts'
import type { Call } from '../protocols/x402/client.ts'
import type { WebOrder } from '../schema/web-purchase.ts'
import type { PurchasePayment, Reservation } from '../store/purchases.ts'
import type { BoughtOnChannel } from './channels/buy-on-channel.ts'
import { type Delivery, notesOf, paidFor, readResponse } from './response.ts'

export type PurchaseResult = Delivery & {
  reservation: Reservation | undefined
  paid?: PurchasePayment
  /** What came with a result over HTTP. */
  web?: WebOrder
}

type Asked = { order: { id: string; task: string }; call: Call }

/** Step 6 of a purchase. Takes the result of any readable response, and notes what is odd in it. */
export function received(
  response: ReceivedResponse,
  { call, order, reservation: made }: Asked & { reservation: Reservation | undefined },
  logger: Logger,
): PurchaseResult {
  const delivery = readResponse(response)
  if (made === undefined) return { ...delivery, reservation: undefined }
  const reservation = { ...made, agentId: call.resource }
  const notes = notesOf(response, reservation, delivery)
  if (notes.length > 0) {
    const ids = { order_id: order.id, correlation_id: response.correlation_id }
    logger.warn({ ...ids, reason: notes.join('; ') }, 'a seller sent an unusual response; its result is accepted')
  }
  const content = { ...delivery, task: order.task }
  return { ...delivery, notes, reservation, paid: paidFor(response, reservation, content, logger) }
}

const CUT = 'the output ends where it was paid for'

/** The same for a call that a channel has paid. Its charge is its price. */
export function receivedOnChannel(
  { response, reservation, onChannel }: BoughtOnChannel,
  purchase: Asked,
  logger: Logger,
): PurchaseResult {
  const { paid, ...result } = received(response, { ...purchase, reservation }, logger)
  const { amount: asked } = reservation
  // Nobody owes more than what was asked, even if the seller says so. The ledger counts the same (store/channel-charges.ts).
  const amount = smallest(onChannel.charge?.amount ?? asked, asked)
  const { units, cut } = onChannel.charge ?? {}
  const metered = { ...reservation.metered, units, cut }
  const notes = cut ? [...result.notes, CUT] : result.notes
  return { ...result, notes, reservation: { ...reservation, amount, metered }, paid: { ...paid!, amount, onChannel } }
}
