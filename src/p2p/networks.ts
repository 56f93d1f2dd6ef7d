import { isIPv4, isIPv6 } from 'node:net'
import type { Multiaddr } from '@multiformats/multiaddr'
import { isPublicAddress } from '../lib/public-address.ts'

/** The first host of an address: an IP address or a name. Over a relay it is the relay's host. */
export function hostIn(address: Multiaddr): string {
  return address.getComponents()[0]?.value ?? ''
}

/** The first host and port of an address. */
export function placeIn(address: Multiaddr): string {
  const [host, port] = address.getComponents()
  return `${host?.value ?? ''} ${port?.name ?? ''} ${port?.value ?? ''}`
}

/** True if a host belongs to a local network: a private IP address, or a name that is valid only there. */
export function isPrivateHost(host: string): boolean {
  if (isIPv4(host) || isIPv6(host)) return !isPublicAddress(host)
  return !host.includes('.') || /\.(localhost|local|lan|internal|home\.arpa)\.?$/i.test(host)
}

/**
 * The addresses one party has to itself: an IPv4 address, or the /64 of an IPv6 address, which everybody gets whole.
 */
export function siteOf(host: string): string {
  const groups = groupsOf(host)
  if (groups !== undefined && isMapped(groups)) return mappedHost(groups)
  return groups === undefined ? host : `${groups.slice(0, 4).join(':')}::/64`
}

/** The addresses that many parties of one network share: the /16 of an IPv4 address, the /32 of an IPv6 address. */
export function networkOf(host: string): string {
  const groups = groupsOf(host)
  if (groups !== undefined && isMapped(groups)) return networkOf(mappedHost(groups))
  if (groups !== undefined) return `${groups.slice(0, 2).join(':')}::/32`
  return isIPv4(host) ? `${host.split('.').slice(0, 2).join('.')}.0.0/16` : host
}

/** The eight groups of an IPv6 address. Undefined for anything else. */
function groupsOf(host: string): string[] | undefined {
  const bare = host.split('%')[0]!
  if (!isIPv6(bare)) return undefined
  const url = new URL(`http://[${bare}]`).hostname.slice(1, -1)
  const [head = '', tail] = url.split('::')
  const first = head === '' ? [] : head.split(':')
  const last = tail === undefined || tail === '' ? [] : tail.split(':')
  return [...first, ...Array.from({ length: 8 - first.length - last.length }, () => '0'), ...last]
}

/** True for an IPv4 address mapped into IPv6. */
function isMapped(groups: readonly string[]): boolean {
  return groups.slice(0, 6).join(':') === '0:0:0:0:0:ffff'
}

function mappedHost(groups: readonly string[]): string {
  const bytes = groups.slice(6).flatMap((group) => {
    const value = Number.parseInt(group, 16)
    return [value >> 8, value & 255]
  })
  return bytes.join('.')
}
