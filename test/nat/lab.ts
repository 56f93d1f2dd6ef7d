/** Networks of their own on one Linux machine: namespaces, a public segment, NAT routers that let nothing in by themselves. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)
const PUBLIC = '11.1.1'

/** Why a lab cannot be built here; undefined where it can. */
export async function labMissing(): Promise<string | undefined> {
  if (process.platform !== 'linux') return 'network namespaces are Linux only'
  if (process.getuid?.() !== 0) return 'network namespaces need root'
  const name = `stoa-probe-${process.pid}`
  try {
    await run('nft', ['--version'])
  } catch {
    return 'nft (package nftables), which makes the NATs, is not installed'
  }
  try {
    await run('ip', ['netns', 'add', name])
    await run('ip', [
      'netns',
      'exec',
      name,
      'nft',
      [
        'add table ip probe',
        'add chain ip probe c { type nat hook postrouting priority 100; }',
        'add rule ip probe c masquerade',
      ].join('; '),
    ])
    return undefined
  } catch (error) {
    return `namespaces with NAT cannot be made here: ${(error as Error).message.trim().split('\n').at(-1)}`
  } finally {
    await run('ip', ['netns', 'del', name]).catch(() => {})
  }
}

/** A machine in the lab: a namespace, and the address others on the public segment see it at. */
export type Place = { name: string; ip: string; publicIp: string; router?: Router }
/** The machine between; `ip` is its address inside, `outerIp` the one outside. */
export type Router = { name: string; ip: string; outerIp: string }
export type NatOptions = {
  /** Ports that the router passes on. */
  forwards?: number[]
  /** Whether each connection leaves from a port of its own, drawn by lot (a symmetric NAT). */
  symmetric?: boolean
  /** The place whose router stands between this one's and the public segment. */
  behind?: Place
}

export class Lab {
  readonly #prefix = `stoa${process.pid}`
  readonly #names: string[] = []
  #hosts = 1

  async start(): Promise<void> {
    await this.#namespace('net')
    await this.#inside('net', 'ip link add br0 type bridge', 'ip link set br0 up', `ip addr add ${PUBLIC}.1/24 dev br0`)
  }

  /** The namespace in which the public segment itself lives, at 11.1.1.1. */
  get center(): Place {
    return { name: this.#full('net'), ip: `${PUBLIC}.1`, publicIp: `${PUBLIC}.1` }
  }

  /** A machine with a public address. */
  async public(name: string): Promise<Place> {
    const ip = `${PUBLIC}.${++this.#hosts}`
    await this.#namespace(name)
    await this.#attach(name, ip)
    return { name: this.#full(name), ip, publicIp: ip }
  }

  /** A machine behind a router of its own, which forwards only what was asked for from inside, and `forwards`. */
  async behindNat(name: string, { forwards = [], symmetric = false, behind }: NatOptions = {}): Promise<Place> {
    const number = ++this.#hosts
    const router = `${name}r`
    const [routerIp, ip] = [`192.168.${number}.1`, `192.168.${number}.2`]
    await this.#namespace(name)
    await this.#namespace(router)
    const outerIp = behind === undefined ? `${PUBLIC}.${number}` : `10.0.${number}.2`
    if (behind === undefined) await this.#attach(router, outerIp)
    else await this.#attachBehind(router, outerIp, behind.router!, `10.0.${number}.1`)
    const [inner, outer] = [`i${number}`, 'lan']
    await this.#inside(name, `ip link add ${inner} type veth peer name ${outer} netns ${this.#full(router)}`)
    await this.#inside(name, `ip addr add ${ip}/24 dev ${inner}`, `ip link set ${inner} up`)
    await this.#inside(router, `ip addr add ${routerIp}/24 dev ${outer}`, `ip link set ${outer} up`)
    await this.#inside(name, `ip route add default via ${routerIp}`)
    await this.#inside(router, 'sysctl -qw net.ipv4.ip_forward=1')
    const dnat = forwards.map((port) => `add rule ip nat pre iifname wan tcp dport ${port} dnat to ${ip}:${port};`)
    const rules = `
      add table ip nat;
      add chain ip nat pre { type nat hook prerouting priority -100; };
      add chain ip nat post { type nat hook postrouting priority 100; };
      add rule ip nat post oifname wan masquerade${symmetric ? ' fully-random' : ''};
      ${dnat.join('\n')}
      add table ip filter;
      add chain ip filter forward { type filter hook forward priority 0; policy drop; };
      add rule ip filter forward ct state established,related accept;
      add rule ip filter forward ct status dnat accept;
      add rule ip filter forward iifname "lan*" accept;
      add chain ip filter input { type filter hook input priority 0; policy drop; };
      add rule ip filter input ct state established,related accept;
      add rule ip filter input iifname "lan*" accept;`
    await run('ip', ['netns', 'exec', this.#full(router), 'nft', rules])
    const publicIp = behind?.publicIp ?? outerIp
    return { name: this.#full(name), ip, publicIp, router: { name: this.#full(router), ip: routerIp, outerIp } }
  }

  /** A firewall on a machine, as distributions set them up: in comes what was asked for, and the peer port. */
  async protect({ name }: Place): Promise<void> {
    const rules = `
      add table inet own;
      add chain inet own input { type filter hook input priority 0; policy drop; };
      add rule inet own input iifname lo accept;
      add rule inet own input ct state established,related accept;
      add rule inet own input meta l4proto { tcp, udp } th dport 4001 accept;`
    await run('ip', ['netns', 'exec', name, 'nft', rules])
  }

  /** Gives a machine on the public segment another address. */
  async renumber(place: Place): Promise<Place> {
    const ip = `${PUBLIC}.${++this.#hosts}`
    for (const change of [['flush'], ['add', `${ip}/24`]]) {
      await run('ip', ['netns', 'exec', place.name, 'ip', 'addr', ...change, 'dev', 'wan'])
    }
    return { ...place, ip, publicIp: ip }
  }

  async stop(): Promise<void> {
    for (const name of this.#names.splice(0)) await run('ip', ['netns', 'del', name]).catch(() => {})
  }

  /** A leg of the public segment into a namespace. */
  async #attach(name: string, ip: string): Promise<void> {
    const port = `p${ip.split('.').at(-1)}`
    await this.#inside('net', `ip link add ${port} type veth peer name wan netns ${this.#full(name)}`)
    await this.#inside('net', `ip link set ${port} master br0`, `ip link set ${port} up`)
    await this.#inside(name, `ip addr add ${ip}/24 dev wan`, 'ip link set wan up')
  }

  /** A leg of a router into the network of another one. */
  async #attachBehind(name: string, ip: string, outer: Router, outerIp: string): Promise<void> {
    const port = `lan${ip.split('.')[2]}`
    await this.#inside(name, `ip link add wan type veth peer name ${port} netns ${outer.name}`)
    await this.#inside(name, `ip addr add ${ip}/24 dev wan`, 'ip link set wan up')
    await run('ip', ['netns', 'exec', outer.name, 'ip', 'addr', 'add', `${outerIp}/24`, 'dev', port])
    await run('ip', ['netns', 'exec', outer.name, 'ip', 'link', 'set', port, 'up'])
    await this.#inside(name, `ip route add default via ${outerIp}`)
  }

  async #namespace(name: string): Promise<void> {
    await run('ip', ['netns', 'add', this.#full(name)])
    this.#names.push(this.#full(name))
    await this.#inside(name, 'ip link set lo up')
  }

  async #inside(name: string, ...commands: string[]): Promise<void> {
    for (const command of commands) await run('ip', ['netns', 'exec', this.#full(name), ...command.split(' ')])
  }

  #full(name: string): string {
    return `${this.#prefix}${name}`
  }
}
