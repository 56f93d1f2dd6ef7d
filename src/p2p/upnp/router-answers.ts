import type { RemoteInfo } from 'node:dgram'
import { BlockList } from 'node:net'

/** Descriptions kept of one host, and of all hosts that are not this machine's own routers. Any host can send them. */
const FOUND_PER_HOST_MAX = 2
const OTHERS_MAX = 8

/** An address of this machine, and its network in CIDR notation. */
export type LocalNetwork = { address: string; cidr: string }

/** The answers to a search. Any host can claim to be a router. */
export class RouterAnswers {
  readonly #routers: readonly string[]
  readonly #own: ReadonlySet<string>
  readonly #near = new BlockList()
  readonly #found = new Map<string, URL[]>()
  readonly #ofRouter = new AbortController()
  #others = 0

  /** @param routers the routers this machine sends through, if the machine tells */
  constructor(routers: readonly string[], networks: readonly LocalNetwork[]) {
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
function locationOf(message: Buffer, from: Pick<RemoteInfo, 'address'>): URL | undefined {
  const [status = '', ...lines] = message.subarray(0, 4096).toString('latin1').split(/\r?\n/)
  if (!/^HTTP\/1\.[01] 200\b/.test(status)) return undefined
  const header = (name: string) =>
    lines.find((line) => line.toLowerCase().startsWith(`${name}:`))?.slice(name.length + 1)
  const url = URL.parse(header('location')?.trim() ?? '')
  const isRouter = header('st')?.includes(':InternetGatewayDevice:') === true
  return isRouter && url?.protocol === 'http:' && url.hostname === from.address ? url : undefined
}
