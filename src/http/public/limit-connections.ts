import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http'
import type { Server as HttpsServer } from 'node:https'
import type { Socket } from 'node:net'
import { Hold } from '../../lib/hold.ts'
import { Shares } from '../../lib/shares.ts'
import type { SiteReader } from './client-site.ts'

/** `requests`: those under way. */
type Connection = { socket: Socket; place: Hold; requests: number }

/**
 * Limits the open connections of an address and of all, but for proxies that the operator trusts. When all places are taken,
 * the connection that has been quiet for longest gives up its place, so clients that connect and say nothing keep nobody out.
 */
export function limitConnections(
  listener: HttpServer | HttpsServer,
  sites: SiteReader,
  max: { each: number; all: number },
): void {
  // The places of proxies, and those that are given up and not closed yet.
  listener.maxConnections = max.all + max.each
  const places = new Shares({ ...max, leavesHalf: true })
  const known = new Map<string, Connection>()
  /** The oldest first. */
  const quiet = new Set<Connection>()

  function endOldest(): void {
    const [oldest] = quiet
    if (oldest === undefined) return
    quiet.delete(oldest)
    oldest.place[Symbol.dispose]()
    oldest.socket.destroy()
  }

  listener.on('connection', (socket: Socket) => {
    if (sites.isProxy(socket.remoteAddress)) return
    const site = sites.siteOf({ socket, headers: {} })
    if (places.isShutOut(site)) endOldest()
    const place = places.take(site)
    if (!(place instanceof Hold)) return void socket.destroy()
    const connection = { socket, place, requests: 0 }
    const key = keyOf(socket)
    known.set(key, connection)
    quiet.add(connection)
    socket.once('close', () => {
      place[Symbol.dispose]()
      quiet.delete(connection)
      if (known.get(key) === connection) known.delete(key)
    })
  })
  listener.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    const connection = known.get(keyOf(socket))
    if (connection === undefined) return
    connection.requests++
    quiet.delete(connection)
    response.once('close', () => {
      connection.requests--
      if (connection.requests === 0 && !connection.socket.destroyed) quiet.add(connection)
    })
  })
}

/** The same for both sockets of a connection with TLS. */
function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}
