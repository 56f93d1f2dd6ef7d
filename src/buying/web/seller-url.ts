import type { AddressKind } from '../../lib/pinned-http.ts'
import { MarketError } from '../../listings/market-error.ts'
import { URL_LENGTH_MAX } from '../../schema/web-purchase.ts'

/** Ports below this one belong to other services than those that sell. */
const FREE_PORT_MIN = 1024
const HEADERS_OURS: ReadonlySet<string> = new Set([
  ...[
    'host',
    'connection',
    'keep-alive',
    'proxy-connection',
    'transfer-encoding',
    'te',
    'trailer',
    'upgrade',
    'expect',
  ],
  ...['content-length', 'accept-encoding', 'payment-signature', 'x-payment', 'payment-required', 'payment-response'],
])

export type SellerUrl = {
  /** Without what only a browser needs. */
  href: string
  /** The address without its query: what orders, measures and budgets know the agent by. */
  agentId: string
  origin: string
  host: string
  reach: AddressKind
}

/**
 * Checks the address of a seller, before anything is asked.
 *
 * @param own origins that `buyer.private_origins` names: they may be on local networks, and without TLS
 * @throws MarketError URL_REFUSED
 */
export function sellerUrl(text: string, own: readonly string[]): SellerUrl {
  const url = text.length > URL_LENGTH_MAX ? null : URL.parse(text)
  if (url === null)
    throw refused(`it is not a URL such as https://api.example.com/run, of at most ${URL_LENGTH_MAX} characters`)
  url.hash = ''
  // Dots at the end name the same host. To limits and measures it must be the same seller.
  url.hostname = url.hostname.replace(/\.+$/, '')
  const { origin, protocol, port, host } = url
  if (protocol !== 'https:' && protocol !== 'http:') throw refused('it must begin with https://')
  if (url.username !== '' || url.password !== '') throw refused('it has a user name or a password: use a header')
  const isOwn = own.includes(origin)
  if (!isOwn && protocol !== 'https:') {
    const how = `name ${origin} in buyer.private_origins, if it is a service of your own network`
    throw refused(`it is not https://, so anybody on the way could change what it asks: ${how}`)
  }
  if (!isOwn && port !== '' && Number(port) < FREE_PORT_MIN && port !== '80')
    throw refused(`port ${port} is no port of a seller`)
  const reach = !isOwn ? 'public' : protocol === 'https:' ? 'any' : 'private'
  return { href: url.href, agentId: origin + url.pathname, origin, host, reach }
}

/** @throws MarketError URL_REFUSED for a header that this node writes itself */
export function checkHeaders(headers: Readonly<Record<string, string>>): void {
  const ours = Object.keys(headers).find((name) => HEADERS_OURS.has(name.toLowerCase()))
  if (ours !== undefined)
    throw new MarketError('URL_REFUSED', `the header ${ours} is written by the node: leave it out`)
}

/** The id of a seller over HTTP: its origin, and the account that it is paid by. */
export function webSellerId(origin: string, payTo: string): string {
  return `${origin}#${payTo.toLowerCase()}`
}

function refused(why: string): MarketError {
  return new MarketError('URL_REFUSED', `this address cannot be bought from: ${why}. Nothing was sent`)
}
