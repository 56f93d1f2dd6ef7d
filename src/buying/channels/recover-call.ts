import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/logger.ts'
import type { PaymentChain } from '../../payments/chain-verdict.ts'
import { PeerError } from '../../protocols/peer-error.ts'
import type { StreamPeer, StreamPool } from '../../protocols/streams.ts'
import type { Call } from '../../protocols/x402/client.ts'
import { RESULT_HOURS } from '../../schema/limits.ts'
import type { Order, Purchases, StoredReservation } from '../../store/purchases.ts'
import { StoreError } from '../../store/store-error.ts'
import { failOrder, forCaller, isForgotten } from '../order-end.ts'
import { notesOf, paidFor, readResponse } from '../response.ts'
import { chargeOf } from './buy-on-channel.ts'
import { ChannelRefused, sendOnChannel } from './channel-call.ts'
import type { Channels } from './channels.ts'

const NO_ANSWER = `no answer about a call came in the ${RESULT_HOURS} h that a seller keeps it`

type RecoverCallDeps = {
  clock: Clock
  logger: Logger
  purchases: Pick<Purchases, 'finish' | 'resolve' | 'giveUpCall' | 'maySendElsewhere'>
  streams: StreamPool
  channels?: Pick<Channels, 'line'> | undefined
  /** Its time says whether our clock runs ahead. */
  chain?: Pick<PaymentChain, 'blockTimeMs'> | undefined
  changed(orderId: string): void
}

/**
 * Brings a call on a channel without a caller to its end. Its seller is asked for the result. A call that the seller never
 * saw is sent again under the same id as long as its order may still run. No chain is asked: the charge says what was paid.
 */
export async function recoverCall(
  order: Order,
  reservation: StoredReservation,
  { call, seller, signal }: { call: Omit<Call, 'task'> & { task?: string }; seller: StreamPeer; signal: AbortSignal },
  deps: RecoverCallDeps,
): Promise<void> {
  const { clock, purchases, streams, changed } = deps
  const line = reservation.channel === undefined ? undefined : deps.channels?.line(reservation.channel)
  // Its channel belongs to another process, which looks after the call.
  if (line === undefined || reservation.state !== 'reserved') return
  const { paymentId: id, amount: asked } = reservation
  const untilMs = reservation.validBeforeSeconds * 1000
  const isOpen = order.status === 'executing' && order.task !== undefined && clock.now() < untilMs
  // The process that signed may still send it. Who buys again meanwhile would pay twice.
  const maySendElsewhere = isOpen && (await purchases.maySendElsewhere(order.id))
  const mayRun = isOpen && !maySendElsewhere
  line.hold(id, asked)
  try {
    const sent = { line, reservation, call: { ...call, task: order.task ?? '' }, seller, streams, mayRun }
    const response = await sendOnChannel(sent, undefined, signal)
    const delivered = readResponse(response)
    const { output, outputBytes } = delivered
    const ended = { output, outputBytes, notes: notesOf(response, reservation, delivered), error: undefined }
    const paid = paidFor(
      response,
      { ...reservation, agentId: call.resource },
      { ...delivered, task: order.task ?? '' },
      deps.logger,
    )
    const onChannel = chargeOf(response, line, { reservation, asked, now: clock.now() })
    await purchases.finish({ ...order, status: 'completed', ...ended, updatedAt: clock.now() }, { ...paid, onChannel })
  } catch (error) {
    if (error instanceof StoreError) throw error
    const answer = error instanceof ChannelRefused ? error.answer : error
    if (!(answer instanceof PeerError)) {
      if (!(await isForgotten(reservation, deps))) return
      if (order.status === 'executing') await failOrder(order, { code: 'SELLER_FAILED', message: NO_ANSWER }, deps)
      line.stop(NO_ANSWER)
      await purchases.giveUpCall(reservation, NO_ANSWER, clock.now())
      return changed(order.id)
    }
    if (maySendElsewhere && answer.code !== 'EXECUTION_FAILED') return
    if (order.status === 'executing') await failOrder(order, forCaller(answer, 'free'), deps)
    await purchases.resolve(reservation, 'released', undefined, clock.now())
    line.drop(id)
  }
  changed(order.id)
}
