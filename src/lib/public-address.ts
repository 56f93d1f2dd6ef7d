import { BlockList, isIP } from 'node:net'

/** Addresses of this machine, of local networks, or of nobody (RFC 6890 and its additions). */
const notPublic = new BlockList()
const subnets: [string, number, 'ipv4' | 'ipv6'][] = [
  ['0.0.0.0', 8, 'ipv4'],
  ['10.0.0.0', 8, 'ipv4'],
  ['100.64.0.0', 10, 'ipv4'],
  ['127.0.0.0', 8, 'ipv4'],
  ['169.254.0.0', 16, 'ipv4'],
  ['172.16.0.0', 12, 'ipv4'],
  ['192.0.0.0', 24, 'ipv4'],
  ['192.0.2.0', 24, 'ipv4'],
  ['192.88.99.0', 24, 'ipv4'],
  ['192.168.0.0', 16, 'ipv4'],
  ['198.18.0.0', 15, 'ipv4'],
  ['198.51.100.0', 24, 'ipv4'],
  ['203.0.113.0', 24, 'ipv4'],
  ['224.0.0.0', 3, 'ipv4'],
  // Tunnels that end at an arbitrary IPv4 address, and documentation prefixes.
  ['2001::', 23, 'ipv6'],
  ['2001:db8::', 32, 'ipv6'],
  ['2002::', 16, 'ipv6'],
  ['3fff::', 20, 'ipv6'],
]
for (const [net, prefix, family] of subnets) notPublic.addSubnet(net, prefix, family)
const global6 = new BlockList()
global6.addSubnet('2000::', 3, 'ipv6')

/** Returns true for a public IP address: not this machine, not a local network, and no tunnel back to them. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address)
  if (family === 4) return !notPublic.check(address, 'ipv4')
  return family === 6 && global6.check(address, 'ipv6') && !notPublic.check(address, 'ipv6')
}
