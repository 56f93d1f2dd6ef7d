import { isIP } from 'node:net'
import type { Dispatcher } from 'undici'
import { bareHost } from './bare-host.ts'
import { checkedLookup } from './checked-lookup.ts'
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
  const host = bareHost(new URL(url).hostname)
  if (publicOnly && isIP(host) !== 0 && !isPublicAddress(host)) throw notPublic(host)
}

/** A name with one private address is refused entirely. */
const lookupPublic = checkedLookup((addresses, hostname) =>
  addresses.length > 0 && addresses.every(isPublicAddress) ? undefined : notPublic(hostname),
)

function notPublic(host: string): CodedError {
  return new CodedError(
    'ADDRESS_NOT_PUBLIC',
    `${host} is no address of the open internet: name it in config.yaml instead`,
  )
}
