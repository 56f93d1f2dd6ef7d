import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'

export type HostName = { name: string; port: string | undefined }

/** A `Host` header, or the host of a URL, taken apart: name in lower case and without brackets. Undefined: malformed. */
export function parseHost(text: string): HostName | undefined {
  const match = /^(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9._-]{1,253}))(?::([0-9]{1,5}))?$/i.exec(text)
  if (match === null) return undefined
  const [, ipv6, name = '', port] = match
  if (ipv6 !== undefined) return isIP(ipv6) === 6 ? { name: ipv6.toLowerCase(), port } : undefined
  return { name: name.toLowerCase().replace(/\.$/, ''), port }
}

/** Whether only programs of this machine can be behind, or reach, this name or address. */
export function isLoopback(name: string): boolean {
  if (name === 'localhost' || name === '::1') return true
  const ipv4 = name.startsWith('::ffff:') ? name.slice('::ffff:'.length) : name
  return isIP(ipv4) === 4 && ipv4.startsWith('127.')
}

/** Off the loopback interface every request needs the token, unless the operator says otherwise (D16); or says so on it. */
export function needsToken(api: { host: string; insecureOpen: boolean; requireToken: boolean }): boolean {
  return isLoopback(api.host) ? api.requireToken : !api.insecureOpen
}

/** What to write into a URL for a host one listens on: all interfaces are reached by the loopback one. */
export function urlHost(listenHost: string): string {
  if (listenHost === '0.0.0.0') return '127.0.0.1'
  if (listenHost === '::') return '[::1]'
  return isIP(listenHost) === 6 ? `[${listenHost}]` : listenHost
}

/**
 * Where a caller found this node, such as `https://node.example`: for the links in what it is answered.
 *
 * The guard has made sure that `Host` names the node. A proxy that speaks TLS says so; whoever else does misleads himself.
 */
export function urlOf({ host = 'localhost', 'x-forwarded-proto': scheme }: IncomingHttpHeaders): string {
  return `${scheme === 'https' ? 'https' : 'http'}://${host.toLowerCase()}`
}
