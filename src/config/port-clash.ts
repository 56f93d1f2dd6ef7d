import { ConfigError } from './config-error.ts'

type Listener = { key: string; hosts: readonly string[]; port: number | undefined }

/**
 * Refuses two listeners of one node on one port. The second could not listen, and the error would blame another program.
 *
 * @throws ConfigError that names both settings
 */
export function checkPorts(listeners: readonly Listener[]): void {
  for (const [index, one] of listeners.entries()) {
    const other = listeners.slice(0, index).find((before) => clashes(before, one))
    if (other === undefined) continue
    throw new ConfigError(`${other.key} and ${one.key} are both ${one.port}: give each a port of its own`)
  }
}

function clashes(one: Listener, other: Listener): boolean {
  // 0 is any free port.
  if (one.port === undefined || one.port === 0 || one.port !== other.port) return false
  return one.hosts.some((host) => other.hosts.some((another) => overlaps(host, another) || overlaps(another, host)))
}

/** True if who listens on `host` also listens on `other`. */
function overlaps(host: string, other: string): boolean {
  return host === other || host === '::' || (host === '0.0.0.0' && !other.includes(':'))
}
