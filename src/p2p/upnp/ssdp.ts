import { createSocket, type RemoteInfo, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { BlockList } from 'node:net'
import { networkInterfaces } from 'node:os'
import { pause } from '../waiting.ts'

const GROUP = '239.255.255.250'
const PORT = 1900
const ROUTES = '/proc/net/route'
/** A router of the second version answers to the first as well, says the standard; not all do. */
const TARGETS = [1, 2].map((version) => `urn:schemas-upnp-org:device:InternetGatewayDevice:${version}`)
const NETWORKS_MAX = 8
/** Descriptions that are kept of one that answers, and how many others there may be beside the routers this machine sends through. */
const FOUND_PER_HOST_MAX = 2
const OTHERS_MAX = 8
/** UDP is lost now and then. */
const ASK_TIMES = 2
/** Who answers takes up to a second, as it is asked to (MX), so that not all answer at once. */
const ASK_EVERY_MS = 1200
/** A router may have a second description. */
const AFTER_ROUTER_MS = 300

/**
 * Asks the local IPv4 networks where a router describes itself (SSDP). Anybody there may answer, and answer first: only
 * descriptions at the address that the answer has come from are taken, and the search goes on until the router has answered
 * that this machine sends through, or could have.
 */
export async function searchRouters(signal: AbortSignal): Promise<URL[]> {
  const routers = await defaultRouters()
  const networks = ownNetworks()
  const answers = new Answers(routers, networks)
  const hosts = [GROUP, ...routers]
  const sockets = await Promise.all(networks.map(({ address }) => open(address)))
  const asking = sockets.filter((socket) => socket !== undefined)
  for (const socket of asking) socket.on('message', (message, from) => answers.take(message, from))
  try {
    const waiting = AbortSignal.any([signal, answers.ofRouter])
    for (let time = 0; time < ASK_TIMES && !waiting.aborted && !answers.suffice; time++) {
      for (const socket of asking) ask(socket, hosts)
      await pause(ASK_EVERY_MS, waiting)
    }
    if (answers.ofRouter.aborted) await pause(AFTER_ROUTER_MS, signal)
  } finally {
    for (const socket of asking) socket.close()
  }
  return answers.found()
}

type Network = { address: string; cidr: string }

/** What has answered a search, of whom anybody can say to be a router. */
export class Answers {
  readonly #routers: readonly string[]
  readonly #own: ReadonlySet<string>
  readonly #near = new BlockList()
  readonly #found = new Map<string, URL[]>()
  readonly #ofRouter = new AbortController()
  #others = 0

  /** @param routers those this machine sends through, as far as it tells */
  constructor(routers: readonly string[], networks: readonly Network[]) {
    this.#routers = routers
    this.#own = new Set(networks.map(({ address }) => address))
    for (const { cidr } of networks) {
      const [network = '', bits] = cidr.split('/')
      this.#near.addSubnet(network, Number(bits), 'ipv4')
    }
  }

  take(message: Buffer, from: Pick<RemoteInfo, 'address'>): void {
    const { address } = from
    const isRouter = this.#routers.includes(address)
    // From afar nobody was asked, and this machine passes nothing on to itself: these are forged, to have it call there.
    if (!isRouter && (this.#own.has(address) || !this.#near.check(address))) return
    const known = this.#found.get(address) ?? []
    if (known.length >= FOUND_PER_HOST_MAX || (!isRouter && this.#others >= OTHERS_MAX)) return
    const location = locationOf(message, from)
    if (location === undefined || known.some(({ href }) => href === location.href)) return
    this.#found.set(address, [...known, location])
    if (isRouter) this.#ofRouter.abort()
    else this.#others++
  }

  /** Aborted once a router has answered that this machine sends through. */
  get ofRouter(): AbortSignal {
    return this.#ofRouter.signal
  }

  /** Whether none is known that would have to answer still. */
  get suffice(): boolean {
    return this.#found.size > 0 && this.#routers.length === 0
  }

  /** The routers that this machine sends through come first. */
  found(): URL[] {
    const all = [...this.#found].toSorted(([a], [b]) => this.#rank(a) - this.#rank(b))
    return all.flatMap(([, locations]) => locations)
  }

  #rank(address: string): number {
    return this.#routers.includes(address) ? 0 : 1
  }
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

/** Whether this machine sends through a router. Where its routes do not tell, it may. */
export async function sendsThrough({ hostname }: URL): Promise<boolean> {
  const routers = await defaultRouters()
  return routers.length === 0 || routers.includes(hostname)
}

/** Lines are: interface, destination, gateway, … ; addresses are hexadecimal, the last byte first. */
export function defaultRoutersIn(routes: string): string[] {
  const gateways = routes.split('\n').flatMap((line) => {
    const [, destination, gateway = ''] = line.split('\t')
    return destination === '00000000' && /^[0-9A-F]{8}$/.test(gateway) && gateway !== '00000000' ? [gateway] : []
  })
  return [...new Set(gateways)].map((gateway) => [...Buffer.from(gateway, 'hex')].toReversed().join('.'))
}

function ownNetworks(): Network[] {
  const addresses = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses)
  return addresses
    .filter(({ family, internal, address }) => family === 'IPv4' && !internal && !address.startsWith('169.254.'))
    .flatMap(({ address, cidr }) => (cidr === null ? [] : [{ address, cidr }]))
    .slice(0, NETWORKS_MAX)
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
