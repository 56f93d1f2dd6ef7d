import { setTimeout as delay } from 'node:timers/promises'
import { readBooks, readCharges } from './books.ts'
import { happen } from './faults.ts'
import { judge, type Sums, type Violation } from './judge.ts'
import { Load } from './load.ts'
import { type PlannedFault, planFaults } from './plan.ts'
import { Random } from './random.ts'
import { budgets, startWorld, type World } from './world.ts'

export type RunOptions = {
  seed: number
  durationMs: number
  /** How long open purchases and payments may take to end after the last fault, in ms. */
  settleMs: number
  tell(line: string): void
  /** Keeps data directories and logs if a rule was broken. */
  isKept?: boolean
}
export type Report = { seed: number; faults: number; wishes: number; sums: Sums; violations: Violation[] }

/** The limit of a seller's unpaid work (`seller.unsettled_max`), in atomic units. */
const EXPOSURE_MAX = 100_000_000n
const ANSWER_MS = 15_000

/** One run: starts a market, buyers and the faults of the seed, then judges the outcome. */
export async function runChaos(options: RunOptions): Promise<Report> {
  const { seed, durationMs, settleMs, tell } = options
  const random = new Random(seed)
  const world = await startWorld()
  const violations: Violation[] = []
  try {
    const load = new Load(world, random.fork(), `s${seed}`)
    await load.start()
    const cast = { sellers: world.sellers, buyers: world.buyers, disks: world.members().every(({ disk }) => disk) }
    if (!cast.disks) tell('no file system can be mounted here: no disk gets full')
    const faults = planFaults(seed, durationMs, cast)
    await letHappen(faults, world, { durationMs, random: random.fork(), tell, violations })
    await heal(world, violations)
    tell('everything works again')
    const until = performance.now() + settleMs
    await load.stop(settleMs)
    await settled(world, until)
    for (const what of await load.buyOnceMore(60_000)) violations.push({ rule: 'nodes answer again', what })
    await settled(world, performance.now() + Math.min(settleMs, 20_000))
    for (const { node } of world.members()) {
      for (const what of node.unasked) violations.push({ rule: 'no node ends by itself', what: `${node.name} ${what}` })
      const panics = node.log().match(/^(fatal|unhandled): .*$/gm) ?? []
      for (const what of new Set(panics))
        violations.push({ rule: 'no error is left to nobody', what: `${node.name}: ${what}` })
      await node.end('SIGTERM')
    }
    const nameOf = (account: string) =>
      world.members().find((member) => member.account.toLowerCase() === account.toLowerCase())?.node.name
    const { timestamp } = await world.devnet.chain.client.getBlock()
    const verdict = judge({
      books: await readBooks(world),
      charges: await readCharges(world),
      wishes: load.wishes,
      ...{ budgets, buyerOf: nameOf, sellerOf: nameOf, nowSeconds: Number(timestamp), exposureMax: EXPOSURE_MAX },
    })
    violations.push(...verdict.violations)
    if (violations.length > 0 && options.isKept === true) await keepLogs(world, tell)
    return { seed, faults: faults.length, wishes: load.wishes.length, sums: verdict.sums, violations }
  } finally {
    await world.stop(options.isKept === true && violations.length > 0)
  }
}

async function letHappen(
  faults: readonly PlannedFault[],
  world: World,
  options: { durationMs: number; random: Random; tell(line: string): void; violations: Violation[] },
): Promise<void> {
  const { durationMs, random, tell, violations } = options
  const from = performance.now()
  /** By target, the last of its faults. Under load a node may take longer to start than planned. */
  const happening = new Map<string, Promise<void>>()
  for (const fault of faults) {
    await delay(Math.max(0, from + fault.atMs - performance.now()))
    const { kind, target, how, forMs } = fault
    const chance = random.fork()
    const happens = (happening.get(target) ?? Promise.resolve()).then(() => {
      tell(`${seconds(performance.now() - from)} ${kind.padEnd(11)} ${target}: ${how}, for ${seconds(forMs)}`)
      return happen(fault, world, chance)
    })
    happening.set(
      target,
      happens.catch((error: Error) => {
        violations.push({ rule: 'a node starts again', what: `${kind} of ${target} (${how}): ${error.message}` })
      }),
    )
  }
  await delay(Math.max(0, from + durationMs - performance.now()))
  await Promise.all(happening.values())
}

/** Starts stopped nodes, and checks that every node answers. */
async function heal(world: World, violations: Violation[]): Promise<void> {
  for (const { node } of world.members()) {
    if (!node.isUp) await node.start().catch(() => {})
    const isWell = await fetch(`${node.url}/health`, { signal: AbortSignal.timeout(ANSWER_MS) }).then(
      (response) => response.ok,
      () => false,
    )
    if (!isWell) violations.push({ rule: 'nodes answer again', what: `${node.name}: ${node.log().slice(-1_000)}` })
  }
}

/** Waits until no order executes and no payment is owed, or until the time limit. */
async function settled(world: World, until: number): Promise<void> {
  const isDone = async (name: string): Promise<boolean> => {
    const { url } = world.member(name).node
    const ask = async (path: string) => {
      const response = await fetch(`${url}${path}`, { signal: AbortSignal.timeout(10_000) })
      return (await response.json()) as { settlement: { pending: number } }
    }
    if (world.sellers.includes(name)) return (await ask('/status')).settlement.pending === 0
    const open = await Promise.all(['executing', 'pending'].map((status) => ask(`/orders?status=${status}&limit=1`)))
    return open.every((orders) => (orders as unknown as unknown[]).length === 0)
  }
  const names = [...world.sellers, ...world.buyers]
  while (performance.now() < until) {
    const done = await Promise.all(names.map((name) => isDone(name).catch(() => false)))
    if (done.every(Boolean)) return
    await delay(500)
  }
}

async function keepLogs(world: World, tell: (line: string) => void): Promise<void> {
  const { writeFile } = await import('node:fs/promises')
  for (const { node, dataDir } of world.members())
    await writeFile(`${dataDir}/../chaos.log`, node.log()).catch(() => {})
  tell(
    `kept: ${world
      .members()
      .map(({ dataDir }) => dataDir)
      .join(', ')}`,
  )
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`.padStart(7)
}
