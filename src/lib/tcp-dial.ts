import { once } from 'node:events'
import { connect } from 'node:net'

/** The place of a multiaddress that begins with a host and a port. Undefined for any other. */
export function placeOf(address: string): { host: string; port: number; transport: 'tcp' | 'udp' } | undefined {
  const match = /^\/(?:ip4|ip6|dns|dns4|dns6)\/([^/]+)\/(tcp|udp)\/([0-9]+)/.exec(address)
  if (match === null) return undefined
  const [, host = '', transport, port] = match
  return { host, port: Number(port), transport: transport as 'tcp' | 'udp' }
}

/** Opens a TCP connection and closes it. @returns why that failed, or undefined if it was accepted */
export async function dialTcp(place: { host: string; port: number }, signal: AbortSignal): Promise<string | undefined> {
  const socket = connect(place)
  try {
    await once(socket, 'connect', { signal })
    return undefined
  } catch (error) {
    return signal.aborted ? 'no answer in time' : ((error as NodeJS.ErrnoException).code ?? String(error))
  } finally {
    socket.destroy()
  }
}
