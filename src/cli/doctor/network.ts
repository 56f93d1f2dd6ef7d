import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer, isIPv6 } from 'node:net'
import { type Finding, fail, ok, skip, warn } from '../../lib/finding.ts'
import { dialTcp, placeOf } from '../../lib/tcp-dial.ts'
import type { Reachability } from '../../schema/api.ts'
import type { NodeFile } from '../../store/node-file.ts'
import { reachabilityText } from '../text/reachability-text.ts'
import { printableLine } from '../text/terminal-text.ts'
import type { Check } from './check.ts'

const PORTS_SHOWN = 4
const SEE_DOCS = 'see docs/operations.md, Reachability'

const p2pPort: Check = {
  id: 'p2p_port',
  title: 'Peer port',
  async run({ config, running, silent }) {
    if (running !== undefined)
      return ok(
        `${portsOf(running.file).slice(0, PORTS_SHOWN).join(', ')}, in use by the running node (pid ${running.file.pid})`,
      )
    if (silent !== undefined) return bySilent(portsOf(silent), silent)
    const { port, listenHosts } = config.p2p
    if (port === 0) return ok('any free port')
    const tries = listenHosts.flatMap((host) => [tryTcp(port, host), tryUdp(port, host)])
    const failures = [...new Set((await Promise.all(tries)).filter((reason) => reason !== undefined))]
    if (failures.length === 0) return ok(`${port} is free, TCP and UDP`)
    return failures.map((reason) => portFinding(reason, port, '--port'))
  },
}

const apiPort: Check = {
  id: 'api_port',
  title: 'API port',
  async run({ config, running, silent }) {
    if (running !== undefined) return ok(`${running.url}, in use by the running node (pid ${running.file.pid})`)
    if (silent !== undefined) {
      const { api_url: url } = silent
      if (url === undefined) return skip('none: the node on this data directory has no API')
      return bySilent([new URL(url).port], silent)
    }
    const { host, port } = config.api
    if (port === 0) return ok('any free port')
    const reason = await tryTcp(port, host)
    return reason === undefined ? ok(`${host}:${port} is free`) : portFinding(reason, port, '--api-port')
  },
}

const bootstrap: Check = {
  id: 'bootstrap',
  title: 'Bootstrap peers',
  async run({ config }, signal) {
    const { bootstrap, mdns, publicDht } = config.p2p
    if (bootstrap.length === 0 && publicDht) return ok('none; the node looks for the market in the public DHT')
    if (bootstrap.length === 0) {
      const fix =
        'give --bootstrap <multiaddr>, or look in the public DHT: --public-dht (NODE_PUBLIC_DHT, p2p.public_dht)'
      if (mdns) return warn('none: the node finds only peers on the local network', fix)
      return fail('none, and mDNS is off: the node finds no peers', fix)
    }
    return await Promise.all(bootstrap.map((address) => tryPeer(address, signal)))
  },
}

const reach: Check = {
  id: 'reachability',
  title: 'Reachability',
  async run({ running }, signal) {
    if (running === undefined) return skip('only a running node can check this')
    const { reachability } = await running.node.status({ signal })
    const text = reachabilityText(reachability)
    const { state, fix = SEE_DOCS, forwarding } = reachability
    const reached = state === 'unreachable' ? fail(text, fix) : state === 'unknown' ? skip(text) : ok(text)
    return forwarding === undefined ? reached : [reached, routerFinding(forwarding)]
  },
}

function routerFinding({ state, says }: NonNullable<Reachability['forwarding']>): Finding {
  const text = printableLine(`UPnP: ${says}`, 500)
  if (state === 'failed') return warn(text, SEE_DOCS)
  return state === 'asking' ? skip(text) : ok(text)
}

export const networkChecks: readonly Check[] = [p2pPort, apiPort, bootstrap, reach]

async function tryPeer(address: string, signal: AbortSignal): Promise<Finding> {
  const place = placeOf(address)
  if (place === undefined) return skip(`${address}: resolved when the node starts`)
  if (place.transport === 'udp')
    return skip(`${address}: not tested, because a QUIC address can be tested only by a running node`)
  const reason = await dialTcp(place, signal)
  if (reason === undefined) return ok(`${address} answers`)
  return fail(
    `${address} cannot be reached (${reason})`,
    'check that the peer is running, its port is open and the address is correct',
  )
}

/** The ports of the node. TCP and UDP usually share one. */
function portsOf({ addresses }: Pick<NodeFile, 'addresses'>): string[] {
  return [...new Set(addresses.flatMap((address) => /\/(?:tcp|udp)\/([0-9]+)/.exec(address)?.[1] ?? []))]
}

/**
 * Its own flags chose its ports, so the ports of the settings say nothing. Why it does not answer is a finding of its own.
 */
function bySilent(ports: readonly string[], { pid }: NodeFile): Finding {
  return ok(
    `${ports.slice(0, PORTS_SHOWN).join(', ')}, in use by the node on this data directory (pid ${pid}), which does not answer`,
  )
}

/** Tries to listen on a port. @returns the reason if that fails */
async function tryTcp(port: number, host: string): Promise<string | undefined> {
  const server = createServer()
  try {
    server.listen({ port, host, exclusive: true, ipv6Only: isIPv6(host) })
    await once(server, 'listening')
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error)
  } finally {
    server.close()
  }
}

async function tryUdp(port: number, host: string): Promise<string | undefined> {
  const six = isIPv6(host)
  const socket = createSocket({ type: six ? 'udp6' : 'udp4', ipv6Only: six })
  try {
    socket.bind({ port, address: host, exclusive: true })
    await once(socket, 'listening')
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error)
  } finally {
    socket.close()
  }
}

function portFinding(reason: string, port: number, flag: string): Finding {
  if (reason === 'EADDRINUSE')
    return fail(`${port} is in use by another program`, `stop that program, or choose another port with ${flag}`)
  if (reason === 'EACCES') return fail(`this user may not use port ${port}`, `choose a port above 1023 with ${flag}`)
  if (reason === 'EADDRNOTAVAIL' || reason === 'EAFNOSUPPORT') {
    return fail('the listen address does not belong to this machine', 'correct NODE_LISTEN_HOST or --api-host')
  }
  return fail(`${port} cannot be used (${reason})`, `choose another port with ${flag}`)
}
