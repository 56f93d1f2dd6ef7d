/** A host name as it stands in a URL. An IPv6 address loses its brackets. */
export function bareHost(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, '$1')
}
