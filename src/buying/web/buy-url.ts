import type { ExecutionResult } from '../../schema/api.ts'
import { OPERATOR } from '../../schema/caller.ts'
import type { WebOrder, WebRequest, WebWish } from '../../schema/web-purchase.ts'
import type { IdempotencyKeys } from '../../store/idempotency.ts'
import type { Payees } from '../../store/payees.ts'
import { type AwaitedDeps, type Awaiting, executingOrder, givenUp, runAwaited } from '../awaited-order.ts'
import type { Budget } from '../budget.ts'
import { type AgainDeps, executeAgain } from '../execute-again.ts'
import { permittedPrice } from '../guard.ts'
import { keyedRequest, once } from '../keyed.ts'
import type { RunnableOrder } from '../purchase.ts'
import { checkAsked, soldBy, type WebSold } from './asked.ts'
import { expectedText, firstRequest, isShaped } from './first-request.ts'
import type { SellerUrl } from './seller-url.ts'
import type { WebSellers } from './web-sellers.ts'

/** A purchase from an x402 seller over HTTP. */
export type UrlPurchase = Omit<Awaiting, 'channel' | 'boughtFor'> &
  WebWish & {
    /** Highest price of this call, in atomic units. The node's own limit also applies. */
    maxPriceAtomic?: bigint | undefined
  }

export type BuyUrlDeps = AgainDeps &
  AwaitedDeps & {
    web: WebSellers
    payees: Payees
    keys: Pick<IdempotencyKeys, 'find' | 'now'>
    budget: Pick<Budget, 'perCall'>
  }

/**
 * Buys from a URL for a caller that waits, like `execute`. The terms come from the seller's live answer, and what is signed
 * is at most the price limit of the caller, of the node, and what is expected. The order's agent is the URL.
 *
 * @throws MarketError; CodedError IDEMPOTENCY_CONFLICT, OVERLOADED
 */
export async function buyUrl(request: UrlPurchase, deps: BuyUrlDeps): Promise<ExecutionResult> {
  const { caller = OPERATOR, signal, task, method, headers, body, maxPriceAtomic, expected } = request
  const url = deps.web.url(request.url)
  const first = firstRequest(url, request)
  const asked = ['buy', url.href, task, method, headers, body, maxPriceAtomic, expected]
  const keyed = keyedRequest(request.idempotencyKey, caller, asked, deps.keys)
  return once(
    keyed,
    deps,
    async () => {
      const [order, sold] = await composed({ ...request, first, url }, deps)
      return runAwaited(order, sold, { request, keyed }, deps)
    },
    async ({ id }) => {
      const before = await executeAgain(id, request, deps)
      return before === 'given up' && !signal.aborted ? buyUrl(request, deps) : givenUp(before)
    },
  )
}

/** Asks the seller, and composes the order if this node may pay what it asks. @throws MarketError */
async function composed(
  { first, url, ...request }: Omit<UrlPurchase, 'url'> & { first: WebRequest; url: SellerUrl },
  deps: BuyUrlDeps,
): Promise<[RunnableOrder, WebSold]> {
  const { task, body, expected = {}, maxPriceAtomic, signal } = request
  const live = await deps.web.ask(
    url,
    { request: first, task: isShaped(request) ? undefined : task, tokenId: request.caller?.tokenId },
    signal,
  )
  try {
    await checkAsked(live, expected, deps)
    const sold = soldBy(live, deps.wallet.asset.network)
    const price = permittedPrice(sold, maxPriceAtomic, deps.budget.perCall())
    const wanted = { agentId: sold.id, sellerId: sold.seller_id, task: task ?? body ?? '', price }
    const order = { ...executingOrder(request, wanted, deps), agentName: sold.name, sellerName: url.host }
    const web: WebOrder = {
      request: live.request,
      expected: expectedText(expected),
      ...('terms' in live.asked && { terms: live.asked.terms.sent }),
    }
    return [{ ...order, web }, sold]
  } catch (error) {
    await live.close()
    throw error
  }
}
