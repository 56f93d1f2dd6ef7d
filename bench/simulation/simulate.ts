import { createHash } from 'node:crypto'
import { compareEntries } from '../../src/listings/set.ts'
import { CompactSet } from './compact-set.ts'
import { type LiarKind, liarKinds, speaksTrue } from './liars.ts'
import { emptyWork, isLeftOut, type SimulatedNode, take, type Work } from './node.ts'
import { type Random, seededRandom } from './random.ts'
import { CompactReplica, WitnessReplica } from './replica.ts'
import { runSession } from './session.ts'
import { ROUND_MS, START, Universe } from './universe.ts'

export type SimulationOptions = {
  seed: number
  nodes: number
  listings: number
  /** Minutes in which listings change, nodes come and go, and the network is split in two for a third of the time. */
  rounds?: number
  /** Maximum of later minutes without changes, with all nodes present, until all agree. */
  quietRoundsMax?: number
  liarShare?: number
  /** Share of gossip deliveries that are lost. */
  gossipLossShare?: number
  /** Share of reconciliation messages that are lost. Each loss ends its session. */
  messageLossShare?: number
  /** Share of nodes that leave in a minute, for one to six minutes. */
  leavingShare?: number
  /** Nodes of real parts, each checked against the model at every merge. */
  witnesses?: number
}

export type SimulationReport = {
  nodes: number
  listings: number
  liars: number
  witnesses: number
  changesPerMinute: number
  /** Whether all honest nodes came to hold the true listings, and in which quiet minute. */
  converged: boolean
  quietRounds: number
  /** Share of true listings whose latest version an honest node lacks, when the split ends and when changes end. */
  staleShare: { atHealing: number; atEnd: number }
  minutes: number
  honest: number
  /** The sum over all honest nodes. */
  work: Work
  /** The same in every run of one seed. */
  digest: string
}

/** Gossip neighbors of a node. They do not forward messages that they find false. */
const NEIGHBORS = 8
const LIES_PER_MINUTE = 4
const FUTURE_DATED = 64
const SESSIONS_OF_LIAR = 2
const PEERS_ON_RETURN = 2

export function simulate(options: SimulationOptions): SimulationReport {
  const { seed, nodes: nodeCount, listings, rounds = 18, quietRoundsMax = 60, liarShare = 0.1 } = options
  const { gossipLossShare = 0.02, messageLossShare = 0.002, leavingShare = 0.02, witnesses = 2 } = options
  const random = seededRandom(seed)
  const liars = Math.round(nodeCount * liarShare)
  const universe = new Universe(
    { seed, listings, rounds, forgedPerRound: Math.ceil(liars / 6), futureDated: FUTURE_DATED },
    random,
  )
  let round = 0
  const nodes = nodesOf(universe, { nodeCount, liars, witnesses }, () => START + round * ROUND_MS)
  const honest = nodes.filter(({ liar }) => liar === undefined)
  const parted = { from: Math.floor(rounds / 3), to: Math.floor((2 * rounds) / 3) }
  const stale = { atHealing: 0, atEnd: 0 }

  let converged = false
  for (; round < rounds + quietRoundsMax && !converged; round++) {
    const deps = { universe, random, round, lossShare: messageLossShare }
    const isQuiet = round >= rounds
    for (const node of honest) {
      if (!node.online && (isQuiet || node.backIn <= round)) {
        node.online = true
        for (let turn = 0; turn < PEERS_ON_RETURN; turn++) meet(node, nodes, deps)
      } else if (!isQuiet && random.chance(leavingShare)) {
        node.online = false
        node.backIn = round + 1 + random.below(6)
      }
    }
    if (round === 2) for (const node of newcomers(honest)) node.replica.clear()
    const isParted = round >= parted.from && round < parted.to
    for (const node of nodes) node.group = isParted ? node.group || 1 + random.below(2) : 0
    if (!isQuiet) gossip(round, nodes, universe, random, gossipLossShare)
    for (const node of shuffled(nodes, random)) {
      for (let turn = 0; turn < (node.liar === undefined ? 1 : SESSIONS_OF_LIAR); turn++) meet(node, nodes, deps)
    }
    if (round + 1 === parted.to) stale.atHealing = staleShareOf(honest, universe, universe.rounds[round]!.to)
    if (round + 1 === rounds) stale.atEnd = staleShareOf(honest, universe, universe.rounds[round]!.to)
    converged = isQuiet && isAgreed(honest, universe)
  }
  for (const { replica } of honest) if (replica instanceof WitnessReplica) replica.check()

  const work = honest.reduce((sum, node) => addWork(sum, node.work), emptyWork())
  const { from, to } = universe.rounds[0]!
  return {
    nodes: nodeCount,
    listings,
    liars,
    witnesses,
    changesPerMinute: to - from - Math.ceil(liars / 6),
    converged,
    quietRounds: round - rounds,
    staleShare: stale,
    minutes: round,
    honest: honest.length,
    work,
    digest: digestOf(honest, work),
  }
}

function nodesOf(
  universe: Universe,
  { nodeCount, liars, witnesses }: { nodeCount: number; liars: number; witnesses: number },
  now: () => number,
): SimulatedNode[] {
  const start = new CompactSet(universe)
  for (let element = 0; element < universe.initial; element++) start.add(element)
  const compare = (a: number, b: number) => compareEntries(universe.entryOf(a), universe.entryOf(b))
  // Liars that hold no elements may share one replica, because they never read it.
  const replicaOf = (liar: LiarKind | undefined) =>
    new CompactReplica(liar === undefined || speaksTrue(liar) ? start.copy() : start, universe, compare)
  return Array.from({ length: nodeCount }, (_, index): SimulatedNode => {
    const liar = index < nodeCount - liars ? undefined : liarKinds[(nodeCount - 1 - index) % liarKinds.length]
    const compact = replicaOf(liar)
    if (liar === 'futurist') for (let turn = 1; turn <= FUTURE_DATED; turn++) compact.merge(universe.size - turn)
    const replica = index < witnesses ? new WitnessReplica(compact, universe, now) : compact
    return { index, liar, replica, online: true, group: 0, backIn: 0, leftOut: new Map(), work: emptyWork() }
  })
}

/** New nodes. The last witness is among them. */
function newcomers(honest: readonly SimulatedNode[]): SimulatedNode[] {
  const count = Math.max(1, Math.round(honest.length / 200))
  return honest
    .filter(({ replica }, index) => index === 1 || (index % 2 === 0 && !(replica instanceof WitnessReplica)))
    .slice(0, count)
}

/** Runs a session with a random present peer, if there is any. */
function meet(node: SimulatedNode, nodes: readonly SimulatedNode[], deps: Parameters<typeof runSession>[2]): void {
  if (!node.online) return
  for (let tries = 0; tries < 8; tries++) {
    const peer = deps.random.pick(nodes)
    if (peer === node || !peer.online || peer.group !== node.group || isLeftOut(node, peer.index, deps.round)) continue
    if (peer.liar !== undefined && node.liar !== undefined) continue
    runSession(node, peer, deps)
    return
  }
}

/** Delivers a minute's changes to all present nodes, except for losses. A lie reaches the liar's neighbors. */
function gossip(
  round: number,
  nodes: readonly SimulatedNode[],
  universe: Universe,
  random: Random,
  lossShare: number,
): void {
  const there = nodes.filter(({ online, liar }) => online && liar === undefined)
  const forgers = nodes.filter(({ liar }) => liar === 'forger')
  const { from, to } = universe.rounds[round]!
  for (let element = from; element < to; element++) {
    if (universe.kindOf(element) === 'true') {
      const publisher = random.pick(there)
      for (const node of there) {
        if (node.group !== publisher.group || (node !== publisher && random.chance(lossShare))) continue
        if (node !== publisher) node.work.gossiped++
        take(node, element, universe)
      }
      // Liars hear the changes, and two kinds learn them.
      for (const node of nodes) if (node.liar === 'forger' || node.liar === 'futurist') node.replica.merge(element)
    } else if (forgers.length > 0) {
      const forger = random.pick(forgers)
      forger.replica.merge(element)
      tell(forger, element)
    }
  }
  for (const liar of nodes) {
    if (liar.liar !== 'replayer' && liar.liar !== 'futurist') continue
    for (let turn = 0; turn < LIES_PER_MINUTE; turn++) {
      tell(
        liar,
        liar.liar === 'replayer' ? random.below(universe.initial) : universe.size - 1 - random.below(FUTURE_DATED),
      )
    }
  }

  function tell(liar: SimulatedNode, element: number): void {
    for (let turn = 0; turn < NEIGHBORS; turn++) {
      const node = random.pick(there)
      if (node.group !== liar.group) continue
      node.work.gossiped++
      take(node, element, universe)
    }
  }
}

function isAgreed(honest: readonly SimulatedNode[], universe: Universe): boolean {
  const truth = new CompactSet(universe)
  for (const element of universe.truth()) truth.add(element)
  return honest.every(({ replica }) => {
    if (replica instanceof CompactReplica) return replica.set.equals(truth)
    const view = replica.view()
    return Buffer.compare(view.keys(0, view.size), truth.keys(0, truth.size)) === 0
  })
}

function staleShareOf(honest: readonly SimulatedNode[], universe: Universe, end: number): number {
  const truth = universe.truth(end)
  const sample = honest.slice(0, 50)
  const stale = sample.reduce((sum, { replica }) => sum + truth.filter((element) => !replica.holds(element)).length, 0)
  return stale / (sample.length * truth.length)
}

function shuffled<T>(items: readonly T[], random: Random): T[] {
  const list = [...items]
  for (let index = list.length - 1; index > 0; index--) {
    const other = random.below(index + 1)
    ;[list[index], list[other]] = [list[other]!, list[index]!]
  }
  return list
}

function addWork(a: Work, b: Work): Work {
  const sum = { ...a }
  for (const name of Object.keys(sum) as (keyof Work)[]) sum[name] += b[name]
  return sum
}

/** A digest of all results that do not depend on the machine. */
function digestOf(honest: readonly SimulatedNode[], { reconcileMs: _, liarMs: __, ...work }: Work): string {
  const digest = createHash('sha256').update(JSON.stringify(work))
  for (const { replica } of honest) {
    const view = replica.view()
    digest.update(new Uint8Array(view.sum(0, view.size).buffer))
  }
  return digest.digest('hex').slice(0, 16)
}
