import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import { siteOf } from '../../p2p/networks.ts'

/** Proxies in a row that are believed. */
const HOPS_MAX = 16

/**
 * Who a request comes from: an IPv4 address, or the /64 of an IPv6 address. `X-Forwarded-For` is read only from proxies
 * that the operator trusts, from the right: what stands further left was sent by somebody else.
 *
 * @param proxies IP addresses and networks such as 10.0.0.0/8
 */
export function createSiteReader(proxies: readonly string[]) {
  const trusted = new BlockList()
  for (const entry of proxies) {
    const [address = '', prefix] = entry.split('/')
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    if (prefix === undefined) trusted.addAddress(address, family)
    else trusted.addSubnet(address, Number(prefix), family)
  }
  const isTrusted = (address: string) => trusted.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')

  return {
    /** True if a connection carries the requests of others. */
    isProxy: (remoteAddress: string | undefined) => isTrusted(plain(remoteAddress)),
    siteOf({ socket, headers }: Pick<IncomingMessage, 'socket' | 'headers'>): string {
      let address = plain(socket.remoteAddress)
      const sent = headers['x-forwarded-for']
      if (sent === undefined) return siteOf(address)
      const forwarded = [sent].flat().join(',').split(',')
      for (const hop of forwarded.slice(-HOPS_MAX).toReversed()) {
        const next = plain(hop.trim())
        if (!isTrusted(address) || isIP(next) === 0) break
        address = next
      }
      return siteOf(address)
    },
  }
}

export type SiteReader = ReturnType<typeof createSiteReader>

/** An IPv4 address as such, also where the socket is of IPv6. */
function plain(address = ''): string {
  return /^::ffff:([0-9.]+)$/i.exec(address)?.[1] ?? address
}
