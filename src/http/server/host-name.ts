import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'

type HostName = { name: string; port: string | undefined }

/** Parses a `Host` header or the host of a URL: lower case, without brackets. Undefined if malformed. */
export function parseHost(text: string): HostName | undefined {
  const match = /^(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9._-]{1,253}))(?::([0-9]{1,5}))?$/i.exec(text)
  if (match === null) return undefined
  const [, ipv6, name = '', port] = match
  if (ipv6 !== undefined) return isIP(ipv6) === 6 ? { name: ipv6.toLowerCase(), port } : undefined
  return { name: name.toLowerCase().replace(/\.$/, ''), port }
}

/** Returns true if only programs on this machine can use this name or address. */
export function isLoopback(name: string): boolean {
  if (name === 'localhost' || name === '::1') return true
  const ipv4 = name.startsWith('::ffff:') ? name.slice('::ffff:'.length) : name
  return isIP(ipv4) === 4 && ipv4.startsWith('127.')
}

/** Off loopback the operator can switch the token off; on loopback, switch it on (D16). */
export function needsToken(api: { host: string; insecureOpen: boolean; requireToken: boolean }): boolean {
  return isLoopback(api.host) ? api.requireToken : !api.insecureOpen
}

/** Returns the host for a URL to a listening address. For all interfaces, the loopback address. */
export function urlHost(listenHost: string): string {
  if (listenHost === '0.0.0.0') return '127.0.0.1'
  if (listenHost === '::') return '[::1]'
  return isIP(listenHost) === 6 ? `[${listenHost}]` : listenHost
}

/**
 * The address of this node as the caller used it, such as `https://node.example`. Used for links in answers. The guard
 * has checked that `Host` names the node. A TLS proxy sets the scheme. A client that forges it only misleads itself.
 */
export function urlOf({ host = 'localhost', 'x-forwarded-proto': scheme }: IncomingHttpHeaders): string {
  return `${scheme === 'https' ? 'https' : 'http'}://${host.toLowerCase()}`
}
