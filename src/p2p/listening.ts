import type { Multiaddr } from '@multiformats/multiaddr'
import { CodedError, reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import type { ListenFailure } from './libp2p-fixes/listen-failures.ts'
import { isFree } from './libp2p-fixes/port-reuse.ts'
import type { HostRole } from './modules.ts'
import { transportOf } from './multiaddrs.ts'

type Port = { port: number; role?: HostRole | undefined }

/**
 * Judges the listening: TCP must listen, other transports may fail with a warning.
 *
 * @throws CodedError `PORT_IN_USE` or `LISTEN_FAILED`, with what to do
 */
export function checkListening(
  { port, role, listening, failures }: Port & { listening: readonly Multiaddr[]; failures: readonly ListenFailure[] },
  deps: { logger: Logger },
): void {
  const tcp = failures.filter(({ address }) => transportOf(address) === 'tcp')
  const taken = tcp.find(({ error }) => codeOf(error) === 'EADDRINUSE')
  if (taken !== undefined) throw portInUse({ port, role }, taken.error)
  if (!listening.some((address) => transportOf(address) === 'tcp')) {
    const reasons = tcp.map(({ address, error }) => `${address}: ${reasonOf(error)}`).join('; ')
    const fix =
      'listen on an address of this machine (NODE_LISTEN_HOST) and on a port this user may open (--port, ≥ 1024)'
    throw new CodedError('LISTEN_FAILED', `cannot listen on TCP port ${port}: ${reasons}; ${fix}`, {
      cause: tcp[0]?.error,
    })
  }
  for (const { address, error } of failures) {
    const fields = { address: address.toString(), err: error }
    // Many machines have no IPv6. That deserves no warning while IPv4 listens.
    if (address.getComponents()[0]?.name === 'ip6') deps.logger.debug(fields, 'not listening on this IPv6 address')
    else deps.logger.warn(fields, 'not listening on this address; peers reach this node by the others')
  }
}

/** @throws CodedError `PORT_IN_USE` if another program listens on the port, even if it would share it */
export async function checkUnshared({ port, role }: Port): Promise<void> {
  if (!(await isFree(port))) throw portInUse({ port, role })
}

function portInUse({ port, role }: Port, cause?: unknown): CodedError<'PORT_IN_USE'> {
  const setting = role === 'market' ? 'p2p.market_port (0 takes any free one)' : '--port (p2p.port)'
  const fix = `stop the program that holds it (another stoa node?) or choose another port with ${setting}`
  return new CodedError('PORT_IN_USE', `TCP port ${port} is already in use; ${fix}`, { cause })
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | null)?.code
}
