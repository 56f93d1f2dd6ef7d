import { lookup as lookupName } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import type { Dispatcher } from 'undici'
import { CodedError } from './errors.ts'
import { isPublicAddress } from './public-address.ts'

type Reach = { publicOnly: boolean }

const WAIT_MS = 30_000
const CONNECT_MS = 10_000

/**
 * Loads connections for URLs that others chose. With `publicOnly` nobody reaches this node's own network through them
 * (T12): the connection itself resolves the name, once, so the address cannot change between check and use.
 */
export async function loadDispatcher({ publicOnly }: Reach): Promise<Dispatcher> {
  const { Agent } = await import('undici')
  const timeouts = { headersTimeout: WAIT_MS, bodyTimeout: WAIT_MS }
  return new Agent({
    ...timeouts,
    keepAliveTimeout: 1_000,
    connect: { timeout: CONNECT_MS, ...(publicOnly && { lookup: lookupPublic }) },
  })
}

/** Refuses a URL with a private IP address. A connection to an address resolves no name. @throws ADDRESS_NOT_PUBLIC */
export function refusePrivate(url: string, { publicOnly }: Reach): void {
  const host = new URL(url).hostname.replace(/^\[(.*)\]$/, '$1')
  if (publicOnly && isIP(host) !== 0 && !isPublicAddress(host)) throw notPublic(host)
}

const lookupPublic: LookupFunction = (hostname, options, callback) => {
  lookupName(hostname, { ...options, all: true }, (error, addresses) => {
    if (error !== null) return callback(error, '', 0)
    const [first] = addresses
    // A name with one private address is refused entirely.
    if (first === undefined || !addresses.every(({ address }) => isPublicAddress(address))) {
      return callback(notPublic(hostname), '', 0)
    }
    if (options.all === true) (callback as unknown as (error: null, list: typeof addresses) => void)(null, addresses)
    else callback(null, first.address, first.family)
  })
}

function notPublic(host: string): CodedError {
  return new CodedError(
    'ADDRESS_NOT_PUBLIC',
    `${host} is no address of the open internet: name it in config.yaml instead`,
  )
}
