/** A real UPnP daemon (miniupnpd, nftables) on a router of the lab. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import type { Place } from './lab.ts'

const run = promisify(execFile)
const DAEMON = 'miniupnpd'

/** Why there can be no such router here; undefined where there can. */
export async function igdMissing(): Promise<string | undefined> {
  try {
    const { stdout, stderr } = await run(DAEMON, ['--version'])
    return `${stdout}${stderr}`.includes('nftables') ? undefined : `${DAEMON} is not the one that works with nftables`
  } catch (error) {
    const failed = error as NodeJS.ErrnoException & { stdout?: string; stderr?: string }
    if (failed.code === 'ENOENT') return `${DAEMON} (package miniupnpd-nftables) is not installed`
    return `${failed.stdout}${failed.stderr}`.includes('nftables') ? undefined : `${DAEMON}: ${failed.message}`
  }
}

export type IgdOptions = {
  /** Lines of its configuration. */
  conf?: readonly string[]
  /** Ports that it passes on to somebody already: `TCP:4001:192.168.2.9:4001`. */
  taken?: readonly string[]
}

/** A port that the router passes on, as its packet filter has it: `tcp 4001 192.168.2.2:4001`. */
export type Igd = {
  mappings(): Promise<string[]>
  /** When each lease ends, in seconds since 1970; 0: never. */
  leases(): Promise<number[]>
  log(): string
  stop(): void
}

export async function startIgd(place: Place, home: string, { conf = [], taken = [] }: IgdOptions = {}): Promise<Igd> {
  const router = place.router!
  const inside = ['netns', 'exec', router.name]
  const file = (name: string) => join(home, `${router.name}.${name}`)
  await run('ip', [
    ...inside,
    'nft',
    `add table inet filter;
     add chain inet filter miniupnpd;
     add chain inet filter prerouting { type nat hook prerouting priority -101; };
     add chain inet filter prerouting_miniupnpd;
     add rule inet filter prerouting iifname wan jump prerouting_miniupnpd;
     add chain inet filter postrouting_miniupnpd;`,
  ])
  await writeFile(file('leases'), taken.map((one) => `${one}:0:another\n`).join(''))
  const lines = [
    'ext_ifname=wan',
    'listening_ip=lan',
    'ipv6_disable=yes',
    'secure_mode=yes',
    'system_uptime=yes',
    `uuid=80f03949-11d7-45c1-9b20-${router.ip.split('.')[2]!.padStart(12, '0')}`,
    `lease_file=${file('leases')}`,
    ...conf,
  ]
  await writeFile(file('conf'), `${lines.join('\n')}\n`)
  const args = [...inside, DAEMON, '-d', '-f', file('conf'), '-P', file('pid')]
  const child: ChildProcess = spawn('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const log: string[] = []
  const output = createInterface({ input: child.stderr! })
  const ready = new Promise<void>((resolve, reject) => {
    output.on('line', (line) => {
      log.push(line)
      if (line.includes('HTTP listening on port')) resolve()
    })
    once(child, 'close').then(() => reject(new Error(`${DAEMON} ended: ${log.join('\n')}`)), reject)
  })
  await ready
  return {
    async leases() {
      const lines = (await readFile(file('leases'), 'utf8')).trim().split('\n')
      return lines.map((line) => Number(line.split(':')[4]))
    },
    log: () => log.join('\n'),
    stop: () => child.kill('SIGKILL'),
    async mappings() {
      const { stdout } = await run('ip', [...inside, 'nft', 'list', 'chain', 'inet', 'filter', 'prerouting_miniupnpd'])
      return stdout.split('\n').flatMap((line) => {
        const match = /0x(6|11) th dport (\d+) dnat ip to ([0-9.:]+)/.exec(line)
        return match === null ? [] : [`${match[1] === '6' ? 'tcp' : 'udp'} ${match[2]} ${match[3]}`]
      })
    },
  }
}
