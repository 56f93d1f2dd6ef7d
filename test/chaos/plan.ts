import { Random } from './random.ts'

/** One thing that goes wrong, from a moment on and for a time. */
export type PlannedFault = { atMs: number; forMs: number; kind: FaultKind; target: string; how: string }
export type FaultKind = 'kill' | 'stop' | 'facilitator' | 'rpc' | 'network' | 'disk' | 'clock' | 'chain'

export type Cast = { sellers: readonly string[]; buyers: readonly string[]; disks: boolean }

/** What each kind may come to. The name of a place in the money path: the node is killed when it gets there. */
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
/** Nothing goes wrong before the market has met, nor in the last moments. */
const QUIET_START_MS = 2_000

/** The faults of a run, by time. The same seed gives the same. */
export function planFaults(seed: number, durationMs: number, cast: Cast): PlannedFault[] {
  const random = new Random(seed)
  const longest = Math.min(15_000, durationMs / 4)
  const pauses = durationMs < 60_000 ? [1_000, 2_500] : [2_000, 7_000]
  const planned: PlannedFault[] = []
  /** Until when a target is busy with a kind: one fault of a kind at a time. */
  const busyUntil = new Map<string, number>()
  for (let atMs = QUIET_START_MS; ; atMs += random.between(pauses[0]!, pauses[1]!)) {
    const forMs = random.between(400, Math.floor(longest))
    const kind = random.pick(kinds)
    const { target, how } = choose(kind, random, cast)
    if (atMs + forMs > durationMs) return planned
    if (kind === 'disk' && !cast.disks) continue
    // A process that is gone or stopped has neither clock nor disk to be tampered with.
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
