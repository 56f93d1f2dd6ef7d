import { lookup } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import type { Client } from 'undici'
import { bareHost } from './bare-host.ts'
import { giveAddresses } from './checked-lookup.ts'
import { CodedError } from './errors.ts'
import { GatheredBytes } from './gathered-bytes.ts'
import { fewPreliminaryAnswers } from './preliminary-answers.ts'
import { isPublicAddress } from './public-address.ts'

/** Bytes of the headers of an answer: what Node and most servers take. */
const HEADER_BYTES_MAX = 16 * 1024
const CONNECT_MS_MAX = 10_000
const LOOKUP_MS_MAX = 10_000

type Address = { address: string; family: number }
/** The addresses of a host name. */
export type ResolveName = (name: string) => Promise<readonly Address[]>

type HttpRequest = {
  method: string
  /** Path and query. */
  path: string
  headers: Readonly<Record<string, string>>
  body?: string | undefined
  /** The body of the answer is cut there. */
  bodyBytesMax: number
}
export type HttpAnswer = {
  status: number
  /** By names in lower case. Of a header that came twice only the first. */
  headers: Readonly<Record<string, string>>
  body: Buffer
  /** True if the body was longer than the limit. */
  isCut: boolean
}

export type PinnedHttp = {
  /** Follows no redirect and unpacks nothing. @throws the error of the connection, or the reason of the signal */
  send(request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer>
  close(): Promise<void>
}

export type AddressKind = 'public' | 'private' | 'any'

type PinOptions = {
  /** Addresses of the open internet, of this machine and local networks, or both. */
  reach: AddressKind
  /** Default: the resolver of the system. */
  resolve?: ResolveName | undefined
}

const systemResolve: ResolveName = (name) => lookup(name, { all: true })

/**
 * Opens a way to one origin that somebody else chose. The name is resolved once and every address is checked (T12). All
 * requests go to these addresses, so that the name cannot lead elsewhere between two requests.
 *
 * @throws CodedError ADDRESS_NOT_PUBLIC, or the error of the lookup
 */
export async function pinnedHttp(origin: string, options: PinOptions, signal: AbortSignal): Promise<PinnedHttp> {
  const host = bareHost(new URL(origin).hostname)
  const addresses = await checkedAddresses(host, options, signal)
  const { Client } = await import('undici')
  const client = new Client(origin, {
    connect: { timeout: CONNECT_MS_MAX, lookup: always(addresses) },
    maxHeaderSize: HEADER_BYTES_MAX,
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  return { send: (request, limit) => send(client, request, limit), close: () => client.destroy() }
}

async function checkedAddresses(
  host: string,
  { reach, resolve = systemResolve }: PinOptions,
  outer: AbortSignal,
): Promise<readonly Address[]> {
  const family = isIP(host)
  const found = family === 0 ? await limited(resolve(host), outer) : [{ address: host, family }]
  if (found.length === 0) throw new CodedError('ADDRESS_UNKNOWN', `${host} has no address`)
  // A name with one address of the wrong kind is refused entirely.
  const wrong = found.find(({ address }) => reach !== 'any' && isPublicAddress(address) !== (reach === 'public'))
  if (wrong === undefined) return found
  const what = reach === 'public' ? 'no address of the open internet' : 'an address of the open internet'
  throw new CodedError('ADDRESS_NOT_PUBLIC', `${host} is ${family === 0 ? `at ${wrong.address}, ` : ''}${what}`)
}

/** A lookup cannot be canceled, only left. */
async function limited<T>(work: Promise<T>, outer: AbortSignal): Promise<T> {
  const signal = AbortSignal.any([outer, AbortSignal.timeout(LOOKUP_MS_MAX)])
  const { promise, reject } = Promise.withResolvers<never>()
  const leave = () => reject(signal.reason)
  signal.addEventListener('abort', leave, { once: true })
  if (signal.aborted) leave()
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

/** Answers each lookup of a connection with the addresses that were checked. */
function always(addresses: readonly Address[]): LookupFunction {
  return (_name, options, callback) => {
    const fitting = addresses.filter(({ family }) => !options.family || options.family === family)
    giveAddresses(options.all === true || fitting.length === 0 ? addresses : fitting, options, callback)
  }
}

async function send(client: Client, request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer> {
  const { method, path, headers, body, bodyBytesMax } = request
  const answer = await client.request({
    method: method as 'GET',
    path,
    headers,
    body: body ?? null,
    ...fewPreliminaryAnswers(signal),
  })
  const read = new GatheredBytes()
  let isCut = false
  for await (const chunk of answer.body as AsyncIterable<Buffer>) {
    const room = bodyBytesMax - read.length
    isCut = chunk.length > room
    read.add(isCut ? chunk.subarray(0, room) : chunk)
    // Leaving the loop destroys the rest of the body.
    if (isCut) break
  }
  return { status: answer.statusCode, headers: single(answer.headers), body: read.bytes(), isCut }
}

function single(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const found: Record<string, string> = Object.create(null)
  for (const [name, value] of Object.entries(headers)) {
    const first = Array.isArray(value) ? value[0] : value
    if (first !== undefined) found[name.toLowerCase()] = first
  }
  return found
}
