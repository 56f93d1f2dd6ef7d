import { createSocket, type RemoteInfo, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { networkInterfaces } from 'node:os'
import { pause } from './waiting.ts'

const GROUP = '239.255.255.250'
const PORT = 1900
const ROUTES = '/proc/net/route'
/** A router of the second version answers to the first as well, says the standard; not all do. */
const TARGETS = [1, 2].map((version) => `urn:schemas-upnp-org:device:InternetGatewayDevice:${version}`)
const NETWORKS_MAX = 8
const FOUND_MAX = 8
/** UDP is lost now and then. */
const ASK_TIMES = 2
const ASK_EVERY_MS = 1200
/** More may answer after the first. */
const AFTER_FIRST_MS = 300

/**
 * Asks the local IPv4 networks where a router describes itself (SSDP). Anybody there may answer: only descriptions at the
 * address that the answer has come from are taken.
 */
export async function searchRouters(signal: AbortSignal): Promise<URL[]> {
  const found = new Map<string, URL>()
  const first = new AbortController()
  const routers = await defaultRouters()
  const hosts = [GROUP, ...routers]
  const sockets = await Promise.all(ownNetworks().map((address) => open(address)))
  const asking = sockets.filter((socket) => socket !== undefined)
  for (const socket of asking) {
    socket.on('message', (message, from) => {
      const location = locationOf(message, from)
      if (location === undefined || found.size >= FOUND_MAX) return
      found.set(location.href, location)
      first.abort()
    })
  }
  try {
    const waiting = AbortSignal.any([signal, first.signal])
    for (let time = 0; time < ASK_TIMES && !waiting.aborted; time++) {
      for (const socket of asking) ask(socket, hosts)
      await pause(ASK_EVERY_MS, waiting)
    }
    if (found.size > 0) await pause(AFTER_FIRST_MS, signal)
  } finally {
    for (const socket of asking) socket.close()
  }
  return defaultFirst([...found.values()], routers)
}

/** Anybody can say to be a router: those this machine sends through are taken first. */
export function defaultFirst(locations: readonly URL[], routers: readonly string[]): URL[] {
  const rank = ({ hostname }: URL) => (routers.includes(hostname) ? 0 : 1)
  return locations.toSorted((a, b) => rank(a) - rank(b))
}

/** Where a router that answered describes itself; undefined for all other messages. */
export function locationOf(message: Buffer, from: Pick<RemoteInfo, 'address'>): URL | undefined {
  const [status = '', ...lines] = message.subarray(0, 4096).toString('latin1').split(/\r?\n/)
  if (!/^HTTP\/1\.[01] 200\b/.test(status)) return undefined
  const header = (name: string) =>
    lines.find((line) => line.toLowerCase().startsWith(`${name}:`))?.slice(name.length + 1)
  const url = URL.parse(header('location')?.trim() ?? '')
  const isRouter = header('st')?.includes(':InternetGatewayDevice:') === true
  return isRouter && url?.protocol === 'http:' && url.hostname === from.address ? url : undefined
}

/**
 * The routers this machine sends through, where it tells (Linux). Asked by name as well: a firewall here takes an answer from
 * one that was asked by name for an answer, and drops one to a question to all.
 */
async function defaultRouters(): Promise<string[]> {
  const text = await readFile(ROUTES, 'latin1').catch(() => '')
  return defaultRoutersIn(text)
}

/** Lines are: interface, destination, gateway, … ; addresses are hexadecimal, the last byte first. */
export function defaultRoutersIn(routes: string): string[] {
  const gateways = routes.split('\n').flatMap((line) => {
    const [, destination, gateway = ''] = line.split('\t')
    return destination === '00000000' && /^[0-9A-F]{8}$/.test(gateway) && gateway !== '00000000' ? [gateway] : []
  })
  return [...new Set(gateways)].map((gateway) => [...Buffer.from(gateway, 'hex')].toReversed().join('.'))
}

function ownNetworks(): string[] {
  const addresses = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses)
  const usable = addresses.filter(({ family, internal, address }) => {
    return family === 'IPv4' && !internal && !address.startsWith('169.254.')
  })
  return usable.map(({ address }) => address).slice(0, NETWORKS_MAX)
}

/** Undefined where that network has gone meanwhile. */
async function open(address: string): Promise<Socket | undefined> {
  const socket = createSocket('udp4')
  try {
    socket.bind(0, address)
    await once(socket, 'listening')
    socket.setMulticastInterface(address)
    socket.setMulticastTTL(2)
    return socket.on('error', () => {})
  } catch {
    socket.on('error', () => {}).close()
    return undefined
  }
}

function ask(socket: Socket, hosts: readonly string[]): void {
  for (const target of TARGETS) {
    const lines = ['M-SEARCH * HTTP/1.1', `HOST: ${GROUP}:${PORT}`, 'MAN: "ssdp:discover"', 'MX: 1']
    const message = `${[...lines, `ST: ${target}`].join('\r\n')}\r\n\r\n`
    for (const host of hosts) socket.send(message, PORT, host, () => {})
  }
}
