import { createSocket, type RemoteInfo, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { BlockList } from 'node:net'
import { networkInterfaces } from 'node:os'
import { idle } from '../../lib/wait.ts'

const GROUP = '239.255.255.250'
const PORT = 1900
const ROUTES = '/proc/net/route'
/** By the standard, a router of version 2 also answers to version 1. Not all routers do. */
const TARGETS = [1, 2].map((version) => `urn:schemas-upnp-org:device:InternetGatewayDevice:${version}`)
const NETWORKS_MAX = 8
/** Descriptions kept of one host, and of all hosts that are not this machine's own routers. Any host can send them. */
const FOUND_PER_HOST_MAX = 2
const OTHERS_MAX = 8
/** Requests sent, because UDP packets are sometimes lost. */
const ASK_TIMES = 2
/** Wait for answers. Hosts answer within a second, as requested (MX), so that not all answer at once. */
const ASK_EVERY_MS = 1200
/** Wait for a second description of the router. */
const AFTER_ROUTER_MS = 300

/**
 * Asks the local IPv4 networks where routers describe themselves (SSDP). Any host there may answer, and may answer
 * first. Only descriptions at the address of the answering host are accepted. The search ends early only when this
 * machine's own router has answered, or when an answer came and no own router is known.
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
      await idle(ASK_EVERY_MS, waiting)
    }
    if (answers.ofRouter.aborted) await idle(AFTER_ROUTER_MS, signal)
  } finally {
    for (const socket of asking) socket.close()
  }
  return answers.found()
}

type Network = { address: string; cidr: string }

/** The answers to a search. Any host can claim to be a router. */
export class Answers {
  readonly #routers: readonly string[]
  readonly #own: ReadonlySet<string>
  readonly #near = new BlockList()
  readonly #found = new Map<string, URL[]>()
  readonly #ofRouter = new AbortController()
  #others = 0

  /** @param routers the routers this machine sends through, if the machine tells */
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
    // Drop forged answers, which would make this node call a host. Distant hosts were not asked, and this machine is
    // not its own router.
    if (!isRouter && (this.#own.has(address) || !this.#near.check(address))) return
    const known = this.#found.get(address) ?? []
    if (known.length >= FOUND_PER_HOST_MAX || (!isRouter && this.#others >= OTHERS_MAX)) return
    const location = locationOf(message, from)
    if (location === undefined || known.some(({ href }) => href === location.href)) return
    this.#found.set(address, [...known, location])
    if (isRouter) this.#ofRouter.abort()
    else this.#others++
  }

  /** Aborts once a router that this machine sends through has answered. */
  get ofRouter(): AbortSignal {
    return this.#ofRouter.signal
  }

  /** True if an answer came and no router of this machine is known that still has to answer. */
  get suffice(): boolean {
    return this.#found.size > 0 && this.#routers.length === 0
  }

  /** The descriptions. This machine's own routers come first. */
  found(): URL[] {
    const all = [...this.#found].toSorted(([a], [b]) => this.#rank(a) - this.#rank(b))
    return all.flatMap(([, locations]) => locations)
  }

  #rank(address: string): number {
    return this.#routers.includes(address) ? 0 : 1
  }
}

/** Where an answering router describes itself. Undefined for all other messages. */
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
 * The routers this machine sends through, if it tells (Linux). They are asked directly too. A firewall on this machine
 * accepts the answer to a direct question, and drops the answer to a multicast question.
 */
async function defaultRouters(): Promise<string[]> {
  const text = await readFile(ROUTES, 'latin1').catch(() => '')
  return defaultRoutersIn(text)
}

/** True if this machine sends through a router. If its routes do not tell, it may. */
export async function sendsThrough({ hostname }: URL): Promise<boolean> {
  const routers = await defaultRouters()
  return routers.length === 0 || routers.includes(hostname)
}

/** Each line has: interface, destination, gateway, … Addresses are hexadecimal, the last byte first. */
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

/** Undefined if the network has gone. */
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
