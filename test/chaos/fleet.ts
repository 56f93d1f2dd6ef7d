import { setTimeout as delay } from 'node:timers/promises'
import { type Books, readBought, readCharges, readRuns, readSold } from './books.ts'
import { FleetLoad } from './fleet-load.ts'
import { type FleetWorld, PRICE, startFleetWorld } from './fleet-world.ts'
import { judge, type Sums, type Violation } from './judge.ts'
import type { ChaosNode } from './node.ts'

export type FleetOptions = {
  /** Decides who is killed when, and where connections are cut. */
  seed: number
  sellers: number
  buyers: number
  /** Tasks that are wanted, and how many of them at the same time. */
  calls: number
  atOnce: number
  /** Calls that the budget of the buyer allows. */
  affordable: number
  /** How often each process of a side is killed, in turn, and the pause after each. */
  sellerKills: number
  buyerKills: number
  pauseMs: number
  /** How often the database is killed. */
  databaseKills: number
  /** Connections that are cut, in the middle of a group of changes or of its commit. */
  cuts: number
  /** The share of commits that are refused with 40001. */
  refusedShare: number
  tell(line: string): void
}

export type FleetReport = {
  violations: Violation[]
  sums: Sums
  /** What has happened: processes killed, connections cut, commits refused. */
  kills: number
  cuts: number
  refused: number
  seconds: number
}

/** Leases end after 20 s; a settlement may be tried again later. */
const SETTLED_MS = 180_000
const CALLS_MS = 400_000
const EXPOSURE_MAX = 100_000_000n
/** Messages of the database's protocol between two cuts. */
const CUT_EACH = 600

/** Several processes of one seller and one buyer under kills, cuts and conflicts; then the chain judges the books. */
export async function runFleet(options: FleetOptions): Promise<FleetReport> {
  const from = performance.now()
  const { tell } = options
  const world = await startFleetWorld({ ...options, budget: PRICE * BigInt(options.affordable) })
  const violations: Violation[] = []
  try {
    const load = await FleetLoad.open(world)
    tell(`all processes run after ${seconds(from)} s`)
    await world.refuseCommits(options.refusedShare)
    const cuts = cutConnections(world, options)
    const wanted = load.want(options.calls, options.atOnce, CALLS_MS)
    const kills = await killInTurn(world, load, options)
    await wanted
    tell(`all calls ended after ${seconds(from)} s`)
    world.proxy.onMessage(() => 'pass')
    const open = await untilSettled(world)
    for (const what of open) violations.push({ rule: 'nothing is stuck', what })
    const refused = await world.refused()
    for (const node of nodesOf(world)) {
      for (const what of node.unasked)
        violations.push({ rule: 'no process ends by itself', what: `${node.name} ${what}` })
      const panics = node.log().match(/^(fatal|unhandled): .*$/gm) ?? []
      for (const what of new Set(panics)) violations.push({ rule: 'no error is left to nobody', what })
    }
    const verdict = await judged(world, load, options)
    violations.push(...verdict.violations)
    if (violations.length > 0) for (const node of nodesOf(world)) tell(`${node.name}:\n${node.log().slice(-3_000)}`)
    return { violations, sums: verdict.sums, kills, cuts: cuts(), refused, seconds: seconds(from) }
  } finally {
    await world.stop()
  }
}

const nodesOf = ({ seller, buyer }: FleetWorld) => [...seller.nodes, ...buyer.nodes]

/** @returns how often a process was killed */
async function killInTurn(world: FleetWorld, load: FleetLoad, options: FleetOptions): Promise<number> {
  const { seed, sellerKills, buyerKills, databaseKills, calls, pauseMs, tell } = options
  const turns: (ChaosNode | 'database')[] = []
  for (let turn = 0; turn < Math.max(sellerKills, buyerKills); turn += 1) {
    if (turn < databaseKills) turns.push('database')
    if (turn < sellerKills) turns.push(...world.seller.nodes)
    if (turn < buyerKills) turns.push(...world.buyer.nodes)
  }
  let kills = 0
  // Another seed begins with another victim.
  const begin = (seed - 1) % turns.length
  for (const [turn, target] of [...turns.slice(begin), ...turns.slice(0, begin)].entries()) {
    // The last are killed while there is still something to do.
    const due = Math.floor((calls * (turn + 1)) / (turns.length + 3))
    while (load.ended < due) await delay(20)
    await delay(pauseMs)
    if (target === 'database') {
      tell(`the database is killed, ${load.ended} calls have ended`)
      await world.server.kill()
      await world.server.start()
      continue
    }
    tell(`${target.name} is killed, ${load.ended} calls have ended`)
    await target.end('SIGKILL')
    await target.start()
    kills += 1
  }
  return kills
}

/** @returns how many connections were cut until now */
function cutConnections({ proxy }: FleetWorld, { seed, cuts }: Pick<FleetOptions, 'seed' | 'cuts'>): () => number {
  let done = 0
  let left = CUT_EACH
  proxy.onMessage(({ type }) => {
    left -= 1
    if (left > 0 || done >= cuts || type === '') return 'pass'
    done += 1
    // Each meets another message of a change, its commit or its answer.
    left = CUT_EACH + ((done * 37 + (seed - 1) * 53) % 120)
    return 'cut'
  })
  return () => done
}

/** Waits until nothing is under way any more. @returns what still is, after the limit */
async function untilSettled({ seller, buyer }: FleetWorld): Promise<string[]> {
  const deadline = performance.now() + SETTLED_MS
  for (;;) {
    const [bought, sold] = await Promise.all([readBought(buyer.database), readSold(seller.database)])
    const open = [
      ...bought
        .filter(({ status }) => status === 'executing' || status === 'pending')
        .map(({ order, status, task, nonce }) => `order ${order} (${task}) is ${status}, payment ${nonce}`),
      ...sold
        .filter(({ state }) => state !== 'settled' && state !== 'voided' && state !== 'unsettled')
        .map(({ nonce, state }) => `payment ${nonce} is ${state}`),
    ]
    if (open.length === 0 || performance.now() > deadline) return open
    await delay(500)
  }
}

async function judged(
  world: FleetWorld,
  load: FleetLoad,
  { affordable }: FleetOptions,
): Promise<{ violations: Violation[]; sums: Sums }> {
  const { seller, buyer, devnet, runs } = world
  const books: Books = {
    bought: new Map([['buyer', await readBought(buyer.database)]]),
    sold: new Map([['seller', await readSold(seller.database)]]),
    runs: new Map([['seller', readRuns(runs)]]),
    unsound: [],
  }
  const { timestamp } = await devnet.chain.client.getBlock()
  const is = (side: { account: string }, account: string) => side.account.toLowerCase() === account.toLowerCase()
  const { violations, sums } = judge({
    ...{ books, charges: await readCharges(world), wishes: load.wishes },
    budgets: { buyer: PRICE * BigInt(affordable) },
    buyerOf: (account) => (is(buyer, account) ? 'buyer' : undefined),
    sellerOf: (account) => (is(seller, account) ? 'seller' : undefined),
    ...{ nowSeconds: Number(timestamp), exposureMax: EXPOSURE_MAX },
  })
  const found = (rule: string, what: string) => violations.push({ rule, what })
  for (const { id, ended, answer } of load.wishes) {
    if (!ended) found('every call ends', `${id}: ${JSON.stringify(answer)}`)
  }
  if (sums.delivered !== sums.charged) {
    found('nothing owed is lost', `${sums.delivered} were delivered, ${sums.charged} were charged`)
  }
  const earned = await devnet.chain.balanceOf(seller.account)
  if (earned !== PRICE * BigInt(sums.charged)) found('a charge is what was agreed', `the seller has ${earned}`)
  return { violations, sums }
}

function seconds(from: number): number {
  return Math.round((performance.now() - from) / 1000)
}
