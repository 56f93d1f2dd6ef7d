import { isIPv6 } from 'node:net'

const DEFAULT_PORTS = { 'https:': '443', 'http:': '80' } as const

/** The names of a seller over HTTP in rules: its host, its host and port, and the account that is paid. */
export function namesOnWeb(sellerId: string): readonly string[] {
  const url = sellerId.includes('://') ? new URL(sellerId) : undefined
  if (url === undefined) return []
  const { hostname, port, protocol, hash } = url
  const known = DEFAULT_PORTS[protocol as keyof typeof DEFAULT_PORTS]
  return [hostname, `${hostname}:${port || known}`, hash.slice(1)]
}

/** The party of a rule, spelled as `namesOnWeb` spells it. A rule in any other spelling would match no seller. */
export function namedOnWeb(party: string): readonly string[] {
  const port = isIPv6(party) ? '' : (/:[0-9]+$/.exec(party)?.[0] ?? '')
  const host = party.slice(0, party.length - port.length).replace(/\.+$/, '')
  const spelled = URL.parse(`https://${isIPv6(host) ? `[${host}]` : host}`)?.hostname
  return [party.toLowerCase(), ...(spelled === undefined ? [] : [spelled + port])]
}
