import { Random } from './random.ts'

/** One fault: its start, its duration and its kind. */
export type PlannedFault = { atMs: number; forMs: number; kind: FaultKind; target: string; how: string }
export type FaultKind = 'kill' | 'stop' | 'facilitator' | 'rpc' | 'network' | 'disk' | 'clock' | 'chain'

export type Cast = { sellers: readonly string[]; buyers: readonly string[]; disks: boolean }

/** Variants of each kind of fault. The name of a fault point in the money path means that the node is killed there. */
export const ways = {
  seller: [
    'at once',
    'at once',
    'politely',
    'seller:paid-request',
    'seller:verified',
    'seller:claimed',
    'seller:executed',
    'seller:owed',
    'seller:settle-answered',
    'seller:answered',
    'seller:settled',
  ],
  buyer: ['at once', 'at once', 'politely', 'buyer:signed', 'buyer:reserved', 'buyer:sent', 'buyer:answered'],
  facilitator: ['drop', '503', 'hold', 'settle and drop', 'settle and 500', 'garbage', 'pending', 'truncated', 'empty'],
  rpc: ['down', 'error', 'hang', 'rate limit', 'behind', 'half behind'],
  network: ['cut', 'cut', 'silent', 'slow'],
  clock: ['+90 s', '-90 s', '+20 min', '-20 min'],
} as const

const kinds: readonly FaultKind[] = [
  ...(['kill', 'kill', 'kill', 'stop', 'stop', 'facilitator', 'facilitator'] as const),
  ...(['rpc', 'rpc', 'network', 'network', 'network', 'disk', 'clock', 'chain'] as const),
]
/** Time at the start without faults, in ms, in which the nodes find each other. The end of a run is quiet too. */
const QUIET_START_MS = 2_000

/** The faults of a run, in order of time. The same seed gives the same faults. */
export function planFaults(seed: number, durationMs: number, cast: Cast): PlannedFault[] {
  const random = new Random(seed)
  const longest = Math.min(15_000, durationMs / 4)
  const pauses = durationMs < 60_000 ? [1_000, 2_500] : [2_000, 7_000]
  const planned: PlannedFault[] = []
  /** The end of the last fault of each entry, in ms. Faults of one entry never overlap. */
  const busyUntil = new Map<string, number>()
  for (let atMs = QUIET_START_MS; ; atMs += random.between(pauses[0]!, pauses[1]!)) {
    const forMs = random.between(400, Math.floor(longest))
    const kind = random.pick(kinds)
    const { target, how } = choose(kind, random, cast)
    if (atMs + forMs > durationMs) return planned
    if (kind === 'disk' && !cast.disks) continue
    // Process, clock and disk faults of a target share one entry: a stopped process has no clock or disk to change.
    const place = kind === 'facilitator' || kind === 'rpc' || kind === 'network' ? `${kind} ${target}` : target
    if ((busyUntil.get(place) ?? 0) > atMs) continue
    busyUntil.set(place, atMs + forMs + 1_000)
    planned.push({ atMs, forMs, kind, target, how })
  }
}

function choose(kind: FaultKind, random: Random, { sellers, buyers }: Cast): { target: string; how: string } {
  const isSeller = random.next() < 0.6
  const node = random.pick(isSeller ? sellers : buyers)
  switch (kind) {
    case 'kill':
      return { target: node, how: random.pick(isSeller ? ways.seller : ways.buyer) }
    case 'stop':
      return { target: node, how: 'SIGSTOP' }
    case 'facilitator':
      return { target: 'facilitator', how: random.pick(ways.facilitator) }
    case 'rpc':
      return { target: node, how: random.pick(ways.rpc) }
    case 'network':
      return { target: node, how: random.pick(ways.network) }
    case 'disk':
      return { target: node, how: 'full' }
    case 'clock':
      return { target: node, how: random.pick(ways.clock) }
    case 'chain':
      return { target: 'chain', how: 'no blocks' }
  }
}
