import { once } from 'node:events'
import type { Server } from 'node:net'

/** Starts to listen. @returns the port, also where the system has chosen it (0) @throws the error of the socket */
export async function listenAt(listener: Server, { host, port }: { host: string; port: number }): Promise<number> {
  listener.listen({ host, port })
  await once(listener, 'listening')
  const address = listener.address()
  return typeof address === 'object' && address !== null ? address.port : port
}
