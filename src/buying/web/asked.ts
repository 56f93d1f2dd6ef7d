import { MarketError } from '../../listings/market-error.ts'
import { type Asset, sameAddress } from '../../payments/assets.ts'
import type { Expected, WebOrder } from '../../schema/web-purchase.ts'
import type { Payees } from '../../store/payees.ts'
import type { Order } from '../../store/purchases.ts'
import type { Offered } from '../guard.ts'
import { expectedIn, nameOf } from './first-request.ts'
import { webSellerId } from './seller-url.ts'
import { checkExpected } from './terms.ts'
import type { LiveSeller, WebSellers } from './web-sellers.ts'

/** What a web seller offers, as the rest of buying sees it, with the connection to it. */
export type WebSold = Offered & { live: LiveSeller }

/** The price is what the seller asks in its live answer. */
export function soldBy(live: LiveSeller, network: Offered['network']): WebSold {
  const { url, asked } = live
  const { requirements } = 'terms' in asked ? asked.terms : {}
  return {
    id: url.agentId,
    name: nameOf(url),
    seller_id: requirements === undefined ? url.origin : webSellerId(url.origin, requirements.payTo),
    price: requirements?.amount ?? 0n,
    ...{ local: false, buyable: true, network, live },
  }
}

/**
 * Compares what a seller asks with what the caller expects, and with who was paid for the last result from there.
 *
 * @throws MarketError TERMS_REFUSED
 */
export async function checkAsked({ url, asked }: LiveSeller, expected: Expected, { payees }: { payees: Payees }) {
  if (!('terms' in asked)) return
  const { requirements } = asked.terms
  checkExpected(requirements, expected)
  if (expected.payTo !== undefined) return
  const before = await payees.payeeBefore(url.agentId)
  if (before === undefined || sameAddress(before, requirements.payTo)) return
  const changed = `the seller asks to pay ${requirements.payTo}, and was paid at ${before} before`
  const how = `if the change is right, say so: --pay-to ${requirements.payTo} (API: expected.pay_to)`
  throw new MarketError('TERMS_REFUSED', `${changed}: nothing was signed; ${how}`)
}

type AskAgainDeps = { web: WebSellers; payees: Payees; wallet: { asset: Pick<Asset, 'network'> } }

/**
 * Asks the seller of a placed order, again after its approval.
 *
 * @returns the seller, and the order with the request that was sent and the terms that the seller asks. The caller closes the
 * seller
 * @throws MarketError, also if another account than before asks for the payment
 */
export async function askAgain<O extends Order>(
  order: O & { web: WebOrder },
  deps: AskAgainDeps,
  signal: AbortSignal,
): Promise<{ sold: WebSold; asked: O }> {
  const { isUnshaped, ...web } = order.web
  const task = isUnshaped === true ? order.task : undefined
  const live = await deps.web.ask(
    deps.web.url(web.request.url),
    { request: web.request, task, tokenId: order.tokenId },
    signal,
  )
  try {
    await checkAsked(live, expectedIn(order.web), deps)
    const sold = soldBy(live, deps.wallet.asset.network)
    if (order.sellerId !== undefined && order.sellerId !== sold.seller_id) {
      const now = `the payment would go to ${sold.seller_id}, and the order was placed for ${order.sellerId}`
      throw new MarketError('TERMS_REFUSED', `${now}: nothing was signed`)
    }
    const terms = 'terms' in live.asked ? { terms: live.asked.terms.sent } : {}
    return { sold, asked: { ...order, web: { ...web, request: live.request, ...terms } } }
  } catch (error) {
    await live.close()
    throw error
  }
}
