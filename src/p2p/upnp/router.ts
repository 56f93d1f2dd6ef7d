/* By hand: libp2p's module speaks one version of UPnP, believes any host and leaves ports open (ADR-16). */

import { type RequestOptions, request } from 'node:http'
import { CodedError } from '../../lib/errors.ts'
import { GatheredBytes } from '../../lib/gathered-bytes.ts'

/**
 * The services that forward ports, the best first: WANIPConnection in both versions, then the service of routers that
 * dial in.
 */
const SERVICES = [
  'urn:schemas-upnp-org:service:WANIPConnection:2',
  'urn:schemas-upnp-org:service:WANIPConnection:1',
  'urn:schemas-upnp-org:service:WANPPPConnection:1',
]
const BODY_BYTES_MAX = 64 * 1024
const ANSWER_MS_MAX = 3000

/** Where a router takes commands (UPnP Internet Gateway Device), and the address of this machine in its network. */
export type Router = { control: URL; service: string; localHost: string }

export type PortMap = { protocol: 'tcp' | 'udp'; host: string; port: number; externalPort: number }

/** The router refused a command. `number` is the error number of the standard. */
export class RouterRefusal extends CodedError<'ROUTER_REFUSED'> {
  readonly number: number

  constructor(number: number, description: string) {
    super('ROUTER_REFUSED', `UPnP error ${number}${description && `, ${description}`}`)
    this.number = number
  }
}

/** Reads a router’s description of itself. Undefined if it does not offer to forward ports. */
export async function readRouter(location: URL, signal: AbortSignal): Promise<Router | undefined> {
  const { status, body, localHost } = await exchange(location, { method: 'GET' }, '', signal)
  if (status !== 200) throw new Error(`the router's description cannot be read (HTTP ${status})`)
  const base = URL.parse(elements(body, 'URLBase')[0] ?? '', location) ?? location
  const offers = elements(body, 'service').map((one) => ({
    service: elements(one, 'serviceType')[0] ?? '',
    control: URL.parse(elements(one, 'controlURL')[0] ?? '', base),
  }))
  for (const service of SERVICES) {
    const control = offers.find((offer) => offer.service === service)?.control
    // A description must not make this node send commands to another machine.
    if (control?.protocol === 'http:' && control.hostname === location.hostname) return { control, service, localHost }
  }
  return undefined
}

/** The router’s public address, as the router claims. It may be anything. */
export async function externalHost(router: Router, signal: AbortSignal): Promise<string> {
  return elements(await order(router, 'GetExternalIPAddress', {}, signal), 'NewExternalIPAddress')[0] ?? ''
}

/** The host that a port is forwarded to already, if the router tells. */
export async function mappedTo(
  router: Router,
  { protocol, externalPort }: Pick<PortMap, 'protocol' | 'externalPort'>,
  signal: AbortSignal,
): Promise<{ host: string; port: number } | undefined> {
  try {
    const text = await order(router, 'GetSpecificPortMappingEntry', place(protocol, externalPort), signal)
    const [host] = elements(text, 'NewInternalClient')
    return host === undefined ? undefined : { host, port: Number(elements(text, 'NewInternalPort')[0]) }
  } catch (error) {
    if (error instanceof RouterRefusal) return undefined
    throw error
  }
}

/**
 * Forwards a port to this machine, or extends the lease. With `leaseS` 0 it lasts until it is removed. @throws
 * RouterRefusal
 */
export async function addMapping(
  router: Router,
  map: PortMap & { leaseS: number },
  signal: AbortSignal,
): Promise<void> {
  const { protocol, host, port, externalPort, leaseS } = map
  const rest = {
    NewInternalPort: port,
    NewInternalClient: host,
    NewEnabled: 1,
    NewPortMappingDescription: `stoa ${port} ${protocol}`,
    NewLeaseDuration: leaseS,
  }
  await order(router, 'AddPortMapping', { ...place(protocol, externalPort), ...rest }, signal)
}

/** @throws RouterRefusal */
export async function deleteMapping(
  router: Router,
  { protocol, externalPort }: Pick<PortMap, 'protocol' | 'externalPort'>,
  signal: AbortSignal,
): Promise<void> {
  await order(router, 'DeletePortMapping', place(protocol, externalPort), signal)
}

function place(protocol: 'tcp' | 'udp', externalPort: number): Record<string, string | number> {
  return { NewRemoteHost: '', NewExternalPort: externalPort, NewProtocol: protocol.toUpperCase() }
}

/** Sends a command. The arguments keep the order of the standard, because some routers accept no other. */
async function order(
  { control, service }: Router,
  action: string,
  values: Record<string, string | number>,
  signal: AbortSignal,
): Promise<string> {
  const inner = Object.entries(values).map(([name, value]) => `<${name}>${value}</${name}>`)
  const envelope = 'xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"'
  const encoding = 's:encodingStyle="http://schemas.xmlsoap.org/soap/encoding/"'
  const call = `<u:${action} xmlns:u="${service}">${inner.join('')}</u:${action}>`
  const text = `<?xml version="1.0"?><s:Envelope ${envelope} ${encoding}><s:Body>${call}</s:Body></s:Envelope>`
  const headers = {
    'content-type': 'text/xml; charset="utf-8"',
    'content-length': Buffer.byteLength(text),
    soapaction: `"${service}#${action}"`,
  }
  const { status, body } = await exchange(control, { method: 'POST', headers }, text, signal)
  if (status === 200) return body
  const number = Number(elements(body, 'errorCode')[0])
  if (Number.isInteger(number)) throw new RouterRefusal(number, printable(elements(body, 'errorDescription')[0] ?? ''))
  throw new Error(`the router did not understand the request (HTTP ${status})`)
}

/**
 * The contents of all elements with a name. The text is cut at the opening tags, so that no part of a hostile text is
 * searched twice.
 */
function elements(xml: string, name: string): string[] {
  const opening = new RegExp(`<(?:[\\w-]{1,20}:)?${name}(?:\\s[^<>]{0,200})?>`)
  const closing = new RegExp(`</(?:[\\w-]{1,20}:)?${name}>`)
  return xml
    .split(opening)
    .slice(1)
    .flatMap((rest) => {
      const end = rest.search(closing)
      return end < 0 ? [] : [rest.slice(0, end).trim().replaceAll('&amp;', '&')]
    })
}

/** Cleans a router's text, which is shown to the operator. */
function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '').slice(0, 80)
}

/** Sends one request, with limits of time and size. It follows no redirects and keeps no connection. */
async function exchange(
  url: URL,
  options: RequestOptions,
  body: string,
  signal: AbortSignal,
): Promise<{ status: number; body: string; localHost: string }> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS_MAX)])
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: string; localHost: string }>()
  const call = request(url, { ...options, agent: false, signal: limit }, (response) => {
    const read = new GatheredBytes()
    response.on('error', reject).on('data', (chunk: Buffer) => {
      read.add(chunk)
      if (read.length > BODY_BYTES_MAX) call.destroy(new Error('the answer of the router is too long'))
    })
    const localHost = response.socket.localAddress ?? ''
    response.on('end', () => {
      resolve({ status: response.statusCode ?? 0, body: read.bytes().toString(), localHost })
    })
  })
  // Node reports some ends not as errors, for example when the other side switches to another protocol.
  call.on('error', reject).on('close', () => reject(new Error('the router ended its answer early')))
  call.end(body)
  return await promise
}
