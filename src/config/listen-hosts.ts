import { networkInterfaces } from 'node:os'

/** All interfaces of this machine. */
export function defaultListenHosts(): string[] {
  const interfaces = Object.values(networkInterfaces()).flatMap((entries) => entries ?? [])
  return interfaces.some(({ family }) => family === 'IPv6') ? ['0.0.0.0', '::'] : ['0.0.0.0']
}
