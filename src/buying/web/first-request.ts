import { MarketError } from '../../listings/market-error.ts'
import {
  type Expected,
  WEB_BODY_BYTES_MAX,
  type WebOrder,
  type WebRequest,
  type WebWish,
} from '../../schema/web-purchase.ts'
import type { StepAtUrl } from '../../store/workflow-row.ts'
import { jsonRequest } from './input-shape.ts'
import { checkHeaders, type SellerUrl } from './seller-url.ts'

/** The request as it is sent first. @throws MarketError INPUT_TOO_LARGE, URL_REFUSED, TERMS_REFUSED */
export function firstRequest(url: SellerUrl, { task, method, headers = {}, body }: Omit<WebWish, 'url'>): WebRequest {
  checkHeaders(headers)
  if (task !== undefined && body !== undefined) throw unusable('a task and a body are given: give only one of them')
  if (Buffer.byteLength(body ?? task ?? '') > WEB_BODY_BYTES_MAX) {
    throw new MarketError('INPUT_TOO_LARGE', `the request is longer than ${WEB_BODY_BYTES_MAX} bytes`)
  }
  if (hasNoBody(method)) {
    if (body !== undefined) throw unusable(`a request with ${method} has no body`)
    if (task !== undefined) throw unusable(`with ${method} the task goes into the URL: leave the task out`)
    return { method, url: url.href, headers }
  }
  if (task !== undefined) {
    const request = jsonRequest(url.href, { task }, method)
    return { ...request, headers: { ...request.headers, ...headers } }
  }
  if (body === undefined) return { method: method ?? 'GET', url: url.href, headers }
  const isTyped = Object.keys(headers).some((name) => name.toLowerCase() === 'content-type')
  const type = isTyped ? {} : { 'content-type': bodyType(body) }
  return { method: method ?? 'POST', url: url.href, body, headers: { ...type, ...headers } }
}

function hasNoBody(method: WebWish['method']): method is 'GET' | 'DELETE' {
  return method === 'GET' || method === 'DELETE'
}

function bodyType(body: string): string {
  return /^\s*[[{]/.test(body) ? 'application/json' : 'text/plain; charset=utf-8'
}

function unusable(why: string): MarketError {
  return new MarketError('URL_REFUSED', `${why}. Nothing was sent`)
}

/** True if the caller has shaped the request: it is sent as it is, even if the seller declares another form. */
export function isShaped({ task, method }: Pick<WebWish, 'task' | 'method'>): boolean {
  return method !== undefined || task === undefined
}

/** What is expected, as an order keeps it. */
export function expectedText({ amount, ...others }: Expected): NonNullable<WebOrder['expected']> {
  return { ...others, ...(amount !== undefined && { amount: `${amount}` }) }
}

/** What was expected, as an order or a step has kept it. */
export function expectedIn({ expected = {} }: Pick<WebOrder, 'expected'>): Expected {
  const { amount, ...others } = expected
  return { ...others, ...(amount !== undefined && { amount: BigInt(amount) }) }
}

/** The request of a step of a workflow. With GET and DELETE nothing of the task is sent. */
export function wishOfStep({ url, method, headers, ...step }: StepAtUrl, task: string): WebWish {
  return { url, method, headers, expected: expectedIn(step), ...(!hasNoBody(method) && { task }) }
}

/** An order at a URL before its seller is asked. @throws MarketError URL_REFUSED, INPUT_TOO_LARGE, TERMS_REFUSED */
export function unaskedOrder(url: SellerUrl, wish: WebWish) {
  const { task, body, expected = {} } = wish
  const request = firstRequest(url, wish)
  const web: WebOrder = {
    ...{ request, expected: expectedText(expected) },
    ...(!isShaped(wish) && { isUnshaped: true }),
  }
  return { agentId: url.agentId, task: task ?? body ?? '', web, agentName: nameOf(url), sellerName: url.host }
}

/** Characters of an address as the name of an agent. */
const NAME_LENGTH_MAX = 80

/** The address without its scheme, as the name of an agent. */
export function nameOf({ agentId }: SellerUrl): string {
  return agentId.slice(agentId.indexOf('//') + 2).slice(0, NAME_LENGTH_MAX)
}
