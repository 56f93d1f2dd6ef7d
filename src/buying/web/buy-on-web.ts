import { randomBytes } from 'node:crypto'
import { reasonOf } from '../../lib/errors.ts'
import { faultPoint } from '../../lib/fault-point.ts'
import { doubledMs } from '../../lib/retry.ts'
import { pause } from '../../lib/wait.ts'
import { signatureTurn } from '../../payments/signature-turn.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { WebOrder } from '../../schema/web-purchase.ts'
import type { Reservation } from '../../store/purchases.ts'
import { Deadline, ResultOverdue } from '../deadline.ts'
import type { Watch } from '../flights.ts'
import { Guard, type GuardDeps } from '../guard.ts'
import type { RunnableOrder } from '../purchase.ts'
import type { PurchaseResult } from '../received.ts'
import type { SendGate } from '../send-gate.ts'
import { freeDelivery, paidDelivery, type WebDelivery } from './paid-answer.ts'
import { webSellerId } from './seller-url.ts'
import { UnclearAnswer } from './unclear-answer.ts'
import { paymentHeader } from './web-payment.ts'
import type { LiveSeller } from './web-sellers.ts'

/** How often a request is sent again while its caller waits, and the pauses before. The recovery goes on after that. */
const SENT_MAX = 5
const BACKOFF = { firstMs: 250, mostMs: 4_000 }
/** How long a caller waits after the payment window ends. Then the recovery asks the chain. */
const AFTER_WINDOW_MS = 30_000

type WebBuyDeps = GuardDeps & { sendGate?: SendGate | undefined }
type WebCallers = { watch?: Watch | undefined; onSigning(): void; hops?: number | undefined }

/**
 * Buys one run from a seller over HTTP that has said what it asks.
 *
 * Signs once, by the guard, and stores the reservation with the seller's terms before the payment leaves. Then sends the
 * request that was asked with, to the addresses that were asked. Everything but a result leaves the order in doubt: a
 * seller can settle a payment that it has refused, and only the chain shows that it did not.
 *
 * @throws MarketError before the signature; UnclearAnswer after it
 */
export async function buyOnWeb(
  order: RunnableOrder,
  { seller, watch, onSigning, hops }: WebCallers & { seller: LiveSeller },
  deps: WebBuyDeps,
  caller: AbortSignal,
): Promise<PurchaseResult & { web: WebOrder }> {
  const { asked, url } = seller
  const web = order.web!
  if ('free' in asked) return { ...freeDelivery(asked.free, web), reservation: undefined }
  using deadline = new Deadline(caller)
  const { requirements } = asked.terms
  const { network, asset, payTo, amount } = requirements
  const listed = { amount, network, asset, payTo }
  const peer = { peerId: webSellerId(url.origin, payTo), addrs: [] }
  const guard = new Guard(order, { agentId: order.agentId, seller: peer, listed, hops }, deps)
  await signatureTurn()
  watch?.status('paying')
  const nonce: Hex = `0x${randomBytes(32).toString('hex')}`
  const { reservation } = await guard.sign({ requirements, nonce, text: '', sellerDid: '' }, onSigning, deadline.signal)
  const windowMs = reservation.validBeforeSeconds * 1000 - deps.clock.now()
  deadline.limit(Math.max(0, windowMs) + AFTER_WINDOW_MS, () => new ResultOverdue())
  watch?.status('running')
  const delivery = await sendUntilClear({ order: { ...order, web }, seller, reservation }, deps, deadline.signal)
  faultPoint('buyer:answered')
  return { ...delivery, reservation }
}

/** Sends the same payment again where that may help: a seller that knows it again runs nothing twice. */
async function sendUntilClear(
  {
    order,
    seller,
    reservation,
  }: { order: RunnableOrder & { web: WebOrder }; seller: LiveSeller; reservation: Reservation },
  { clock, sendGate }: WebBuyDeps,
  signal: AbortSignal,
): Promise<WebDelivery> {
  const headers = paymentHeader(order.web.terms!, reservation.envelope)
  for (let sent = 1; ; sent++) {
    const unclear = await tryOnce(async () => {
      await sendGate?.(signal)
      return paidDelivery(await seller.send(headers, signal), { order, reservation })
    })
    if (!(unclear instanceof UnclearAnswer)) return unclear
    signal.throwIfAborted()
    const mayPass = (unclear.cause as { mayPass?: unknown } | undefined)?.mayPass === true
    const isOver = clock.now() > reservation.validBeforeSeconds * 1000
    if (!mayPass || isOver || sent >= SENT_MAX) throw unclear
    await pause(doubledMs(sent, BACKOFF), signal)
    signal.throwIfAborted()
  }
}

/** Sends the request once. @returns UnclearAnswer if the answer does not say whether the payment buys anything, or never came */
export async function tryOnce(send: () => Promise<WebDelivery>): Promise<WebDelivery | UnclearAnswer> {
  try {
    return await send()
  } catch (error) {
    if (error instanceof UnclearAnswer) return error
    const why = `the connection broke after the payment was signed (${reasonOf(error)})`
    return new UnclearAnswer(why, { cause: { mayPass: true, error } })
  }
}
