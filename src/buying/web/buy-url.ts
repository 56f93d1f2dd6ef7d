import { MarketError } from '../../listings/market-error.ts'
import type { ExecutionResult } from '../../schema/api.ts'
import { OPERATOR } from '../../schema/caller.ts'
import {
  type Expected,
  WEB_BODY_BYTES_MAX,
  type WebMethod,
  type WebOrder,
  type WebRequest,
} from '../../schema/web-purchase.ts'
import type { IdempotencyKeys } from '../../store/idempotency.ts'
import type { Payees } from '../../store/payees.ts'
import { type AwaitedDeps, type Awaiting, executingOrder, givenUp, runAwaited } from '../awaited-order.ts'
import type { Budget } from '../budget.ts'
import { type AgainDeps, executeAgain } from '../execute-again.ts'
import { permittedPrice } from '../guard.ts'
import { keyedRequest, once } from '../keyed.ts'
import type { RunnableOrder } from '../purchase.ts'
import { checkAsked, soldBy, type WebSold } from './asked.ts'
import { jsonRequest } from './input-shape.ts'
import { checkHeaders, type SellerUrl } from './seller-url.ts'
import type { WebSellers } from './web-sellers.ts'

/** A purchase from an x402 seller over HTTP. */
export type UrlPurchase = Omit<Awaiting, 'channel' | 'boughtFor'> & {
  url: string
  /** The task. It is sent as the seller declares it, or else as `{"task": …}`. */
  task?: string | undefined
  /** Default: what the seller declares, or POST. */
  method?: WebMethod | undefined
  headers?: Readonly<Record<string, string>> | undefined
  /** The body as it is sent, instead of the task. */
  body?: string | undefined
  /** Highest price of this call, in atomic units. The node's own limit also applies. */
  maxPriceAtomic?: bigint | undefined
  /** What the seller should ask, such as what a catalog says. Nothing is signed for more, or for other terms. */
  expected?: Expected | undefined
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

/** The request as it is sent first. @throws MarketError INPUT_TOO_LARGE, URL_REFUSED, TERMS_REFUSED */
function firstRequest(url: SellerUrl, { task, method, headers = {}, body }: UrlPurchase): WebRequest {
  checkHeaders(headers)
  if (task !== undefined && body !== undefined) throw unusable('a task and a body are given: give only one of them')
  if (Buffer.byteLength(body ?? task ?? '') > WEB_BODY_BYTES_MAX) {
    throw new MarketError('INPUT_TOO_LARGE', `the request is longer than ${WEB_BODY_BYTES_MAX} bytes`)
  }
  if (method === 'GET' || method === 'DELETE' || (task === undefined && body === undefined)) {
    const isBare = method === 'GET' || method === 'DELETE'
    if (isBare && body !== undefined) throw unusable(`a request with ${method} has no body`)
    if (isBare && task !== undefined) throw unusable(`with ${method} the task goes into the URL: leave the task out`)
    return { method: method ?? 'GET', url: url.href, headers }
  }
  const plain = task === undefined ? { url: url.href, body: body! } : jsonRequest(url.href, { task })
  const named = Object.keys(headers).some((name) => name.toLowerCase() === 'content-type')
  const type = named || task !== undefined ? {} : { 'content-type': bodyType(body!) }
  return { ...plain, method: method ?? 'POST', headers: { ...('headers' in plain ? plain.headers : type), ...headers } }
}

function bodyType(body: string): string {
  return /^\s*[[{]/.test(body) ? 'application/json' : 'text/plain; charset=utf-8'
}

function unusable(why: string): MarketError {
  return new MarketError('URL_REFUSED', `${why}. Nothing was sent`)
}

/** Asks the seller, and composes the order if this node may pay what it asks. @throws MarketError */
async function composed(
  { first, url, ...request }: Omit<UrlPurchase, 'url'> & { first: WebRequest; url: SellerUrl },
  deps: BuyUrlDeps,
): Promise<[RunnableOrder, WebSold]> {
  const { task, method, body, expected = {}, maxPriceAtomic, signal } = request
  // A request that the caller has shaped stays as it is.
  const shaped = method === undefined ? task : undefined
  const live = await deps.web.ask(url, { request: first, task: shaped }, signal)
  try {
    await checkAsked(live, expected, deps)
    const sold = soldBy(live, deps.wallet.asset.network)
    const price = permittedPrice(sold, maxPriceAtomic, deps.budget.perCall())
    const wanted = { agentId: sold.id, sellerId: sold.seller_id, task: task ?? body ?? '', price }
    const order = { ...executingOrder(request, wanted, deps), agentName: sold.name, sellerName: url.host }
    const { amount, ...others } = expected
    const web: WebOrder = {
      request: live.request,
      expected: { ...others, ...(amount !== undefined && { amount: `${amount}` }) },
      ...('terms' in live.asked && { terms: live.asked.terms.sent }),
    }
    return [{ ...order, web }, sold]
  } catch (error) {
    await live.close()
    throw error
  }
}
