import { BlockList, isIP } from 'node:net'
import { bareHost } from './bare-host.ts'
import { checkedLookup } from './checked-lookup.ts'
import { CodedError } from './errors.ts'

/** Where clouds tell a machine its own keys, and addresses that are valid on one cable only. No service is sold there. */
const ofTheMachine = new BlockList()
ofTheMachine.addSubnet('169.254.0.0', 16, 'ipv4')
ofTheMachine.addAddress('100.100.100.200', 'ipv4')
ofTheMachine.addAddress('192.0.0.192', 'ipv4')
ofTheMachine.addSubnet('fe80::', 10, 'ipv6')
ofTheMachine.addAddress('fd00:ec2::254', 'ipv6')
ofTheMachine.addAddress('fd20:ce::254', 'ipv6')
// The same addresses of IPv4 in IPv6: NAT64, compatible and mapped.
for (const prefix of ['64:ff9b::', '::', '::ffff:']) ofTheMachine.addSubnet(`${prefix}a9fe:0`, 112, 'ipv6')

/** @throws CodedError for an address of the machine itself, as it stands in a URL */
export function checkHost(hostname: string): void {
  const host = bareHost(hostname)
  if (isOfTheMachine(host)) throw refused(host)
}

/** Resolves a name that a connection asks for. A name with one address of the machine itself is refused entirely. */
export const lookupOutside = checkedLookup((addresses, hostname) =>
  addresses.some(isOfTheMachine) ? refused(hostname) : undefined,
)

/** @internal Exported for its test. */
export function isOfTheMachine(address: string): boolean {
  const family = isIP(address)
  return family !== 0 && ofTheMachine.check(address.replace(/%.*$/, ''), family === 4 ? 'ipv4' : 'ipv6')
}

function refused(host: string): CodedError {
  return new CodedError(
    'ADDRESS_REFUSED',
    `${host} leads to an address that only this machine may ask, which is not done`,
  )
}
