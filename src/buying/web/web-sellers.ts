import { isDeepStrictEqual } from 'node:util'
import { CodedError, reasonOf } from '../../lib/errors.ts'
import { type HttpAnswer, type PinnedHttp, pinnedHttp, type ResolveName } from '../../lib/pinned-http.ts'
import { Shares } from '../../lib/shares.ts'
import { stoaVersion } from '../../lib/version.ts'
import { MarketError } from '../../listings/market-error.ts'
import type { Asset } from '../../payments/assets.ts'
import { RESULT_BYTES_MAX } from '../../schema/limits.ts'
import type { WebRequest } from '../../schema/web-purchase.ts'
import { declaredRequest } from './input-shape.ts'
import { type SellerUrl, sellerUrl } from './seller-url.ts'
import { chooseOffer, type Demand, type LiveTerms, readDemand, shown } from './terms.ts'
import { checkHeaderLength } from './web-payment.ts'

/** How long a seller may take to say what it asks. It may also give a result for nothing. */
const ASK_MS_MAX = 60_000
/** Sellers that are asked or paid at the same time: in total, and for one token. One token cannot use up all of them. */
const OPEN_MAX = 64
const OPEN_PER_TOKEN_MAX = 32

type WebSellersOptions = {
  asset: Asset
  /** Origins of the operator's own networks. */
  privateOrigins: readonly string[]
  resolve?: ResolveName | undefined
}

/** A seller that has said what it asks. The connection leads to the addresses that were asked. */
export type LiveSeller = {
  url: SellerUrl
  request: WebRequest
  /** What it asks, or the result that it gave for nothing. */
  asked: { terms: LiveTerms } | { free: HttpAnswer }
  send(headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<HttpAnswer>
  close(): Promise<void>
}

/** A request to ask with. `task`: it may be shaped as the seller declares it. `tokenId`: who buys. Undefined: the operator. */
type FirstAsk = { request: WebRequest; task?: string | undefined; tokenId: string | undefined }

/** Reaches sellers over HTTP. Nothing here signs. */
export class WebSellers {
  readonly #options: WebSellersOptions
  readonly #ofTokens = new Shares({ each: OPEN_PER_TOKEN_MAX })
  #open = 0

  constructor(options: WebSellersOptions) {
    this.#options = options
  }

  /** @throws MarketError URL_REFUSED */
  url(text: string): SellerUrl {
    return sellerUrl(text, this.#options.privateOrigins)
  }

  /**
   * Sends the request unpaid and reads what the seller asks (T12). What it asks of this request counts, and nothing else.
   *
   * @throws MarketError URL_REFUSED, TERMS_REFUSED, NETWORK_MISMATCH, SELLER_UNREACHABLE, SELLER_FAILED, DEADLINE;
   * CodedError OVERLOADED
   */
  async ask(url: SellerUrl, { request, task, tokenId }: FirstAsk, outer: AbortSignal): Promise<LiveSeller> {
    const limit = AbortSignal.timeout(ASK_MS_MAX)
    const signal = AbortSignal.any([outer, limit])
    const http = await this.open(url, tokenId, signal).catch((error: unknown) =>
      Promise.reject(unreached(error, outer, limit)),
    )
    try {
      const send = (one: WebRequest) => sendTo(http, one, {}, signal)
      const found = await askWith(send, url, { request, task })
      const { demand, answer } = found
      return {
        ...{ url, request: found.request },
        asked: demand === undefined ? { free: freeAnswer(answer) } : { terms: this.#terms(demand, found.request.url) },
        send: (headers, until) => sendTo(http, found.request, headers, until),
        close: () => http.close(),
      }
    } catch (error) {
      await http.close()
      throw unreached(error, outer, limit)
    }
  }

  /** @throws CodedError OVERLOADED, ADDRESS_NOT_PUBLIC, or the error of the lookup */
  async open({ origin, reach }: SellerUrl, tokenId: string | undefined, signal: AbortSignal): Promise<PinnedHttp> {
    if (this.#open >= OPEN_MAX) throw overloaded(OPEN_MAX)
    const place = tokenId === undefined ? undefined : this.#ofTokens.take(tokenId)
    if (typeof place === 'string') throw overloaded(OPEN_PER_TOKEN_MAX)
    this.#open++
    const leave = () => {
      this.#open--
      place?.[Symbol.dispose]()
    }
    try {
      const http = await pinnedHttp(origin, { reach, resolve: this.#options.resolve }, signal)
      let isOpen = true
      return {
        send: http.send,
        close: async () => {
          if (isOpen) leave()
          isOpen = false
          await http.close()
        },
      }
    } catch (error) {
      leave()
      throw error
    }
  }

  #terms(demand: Demand, url: string): LiveTerms {
    const terms = chooseOffer(demand, this.#options.asset, url)
    checkHeaderLength(terms.sent)
    return terms
  }
}

function overloaded(max: number): CodedError<'OVERLOADED'> {
  return new CodedError('OVERLOADED', `this node buys from ${max} web sellers at once: ask again in a while`)
}

/** Sends one request. The same bytes each time, but for the headers that are added. */
export function sendTo(
  http: PinnedHttp,
  { method, url, headers, body }: WebRequest,
  added: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const { pathname, search } = new URL(url)
  const ours = { accept: '*/*', 'user-agent': `stoa/${stoaVersion()}`, 'accept-encoding': 'identity' }
  const all = { ...ours, ...lowerCase(headers), ...added }
  return http.send({ method, path: pathname + search, headers: all, body, bodyBytesMax: RESULT_BYTES_MAX }, signal)
}

function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
}

type Found = { request: WebRequest; answer: HttpAnswer; demand: Demand | undefined }

/** A seller that declares how it is called is asked once more, with a request of that shape. */
async function askWith(
  send: (request: WebRequest) => Promise<HttpAnswer>,
  url: SellerUrl,
  ask: Omit<FirstAsk, 'tokenId'>,
): Promise<Found> {
  const tried = async (request: WebRequest): Promise<Found> => {
    const answer = await send(request)
    return { request, answer, demand: answer.status === 402 ? readDemand(answer) : undefined }
  }
  const { task, request: plain } = ask
  let found = await tried(plain)
  if (task === undefined) return found
  const isElsewhere = found.answer.status === 404 || found.answer.status === 405
  if (isElsewhere) {
    const read = await tried({ method: 'GET', url: url.href, headers: {} })
    if (read.demand !== undefined) found = read
  }
  if (found.demand === undefined) return found
  const declared = declaredRequest(found.demand, url.href, task)
  const own = Object.entries(plain.headers).filter(([name]) => name.toLowerCase() !== 'content-type')
  const shaped = declared && { ...declared, headers: { ...declared.headers, ...Object.fromEntries(own) } }
  if (shaped !== undefined && !isDeepStrictEqual(shaped, found.request)) return tried(shaped)
  if (found.request === plain) return found
  throw new MarketError(
    'TERMS_REFUSED',
    'the seller is called by GET and does not say where the task goes: put it into the URL, and give the method GET. Nothing was signed',
  )
}

/** @throws MarketError for an answer that is no result */
function freeAnswer(answer: HttpAnswer): HttpAnswer {
  const { status, headers } = answer
  if (status >= 200 && status < 300) return answer
  if (status === 402) {
    throw new MarketError(
      'TERMS_REFUSED',
      'the seller asks for a payment in a form that is not x402 version 1 or 2: nothing was signed',
    )
  }
  if (status >= 300 && status < 400) {
    const to = headers.location === undefined ? 'elsewhere' : `to ${shown(headers.location)}`
    const fix = 'buy from that address, if you trust it'
    throw new MarketError(
      'TERMS_REFUSED',
      `the address leads ${to} (${status}), and no redirect is followed: ${fix}. Nothing was signed`,
    )
  }
  const code = status >= 500 || status === 429 ? 'SELLER_UNREACHABLE' : 'SELLER_FAILED'
  throw new MarketError(code, `the seller answered ${status} to a request without payment: nothing was signed`)
}

/** An error before anything was signed, as the caller reads it. */
function unreached(error: unknown, outer: AbortSignal, limit: AbortSignal): unknown {
  if (error instanceof MarketError || outer.aborted) return error
  if (limit.aborted)
    return new MarketError(
      'DEADLINE',
      `the seller did not say what it asks in ${ASK_MS_MAX / 1000} s; nothing was paid`,
    )
  if (error instanceof CodedError && error.code === 'OVERLOADED') return error
  if (error instanceof CodedError && error.code === 'ADDRESS_NOT_PUBLIC') {
    const how = 'name its origin in buyer.private_origins, if it is a service of your own network'
    return new MarketError('URL_REFUSED', `${error.message}: ${how}. Nothing was sent`, { cause: error })
  }
  return new MarketError('SELLER_UNREACHABLE', `the seller cannot be reached: ${reasonOf(error)}; nothing was paid`, {
    cause: error,
  })
}
