import { compareKeys, type ElementKey } from '../../src/protocols/sync/reconcile/element-key.ts'
import type { RangeView } from '../../src/protocols/sync/reconcile/range-index.ts'
import { ReconcileError } from '../../src/protocols/sync/reconcile/reconcile-error.ts'
import { Reconciliation } from '../../src/protocols/sync/reconcile/reconciliation.ts'
import { SALT_BYTES } from '../../src/protocols/sync/reconcile/session-hash.ts'
import { answerFalsely, openFalsely, speaksTrue } from './liars.ts'
import { isLeftOut, leaveOut, type SimulatedNode, take, type Work } from './node.ts'
import type { Random } from './random.ts'
import type { Universe } from './universe.ts'

export type SessionDeps = {
  universe: Universe
  random: Random
  round: number
  /** Share of messages that are lost. A lost message ends the connection too. */
  lossShare: number
}

/** One side of a session. */
type Speaker = {
  node: SimulatedNode
  have: ElementKey[]
  open(salt: Uint8Array): Uint8Array
  /** Returns the reply, or undefined at the end. */
  receive(message: Uint8Array): Uint8Array | undefined
}

/**
 * Useless envelopes accepted from a peer. The newest come first: if these are useless, the node does not wait for the
 * rest.
 */
const USELESS_MAX = 64

type Outcome = 'fine' | 'idle' | 'hostile'
/** A session that was cut for its length keeps its findings. */
type Talk = Outcome | 'cut'

/**
 * Two nodes reconcile, then each sends what the other lacks. The server sends first, so that the client does not send
 * versions that have been replaced.
 */
export function runSession(client: SimulatedNode, server: SimulatedNode, deps: SessionDeps): void {
  // A server refuses peers that it has found hostile.
  if (server.liar === undefined && (server.leftOut.get(client.index)?.rounds ?? 0) >= 64) {
    if (isLeftOut(server, client.index, deps.round)) return
  }
  const speakers: [Speaker, Speaker] = [speakerOf(client, deps), speakerOf(server, deps)]
  for (const { node } of speakers) node.work.sessions++
  const before = speakers.map(({ node }) => ({ ...node.work }))
  const talked = talk(speakers, deps)
  const outcomes: (Outcome | undefined)[] = talked === 'hostile' ? ['hostile', 'hostile'] : ['idle', undefined]
  if (talked === 'fine' || talked === 'cut') {
    outcomes[0] = handOver(speakers[1], client, deps)
    // The session found nothing and did not end: it was wasted.
    if (talked === 'cut' && speakers[1].have.length === 0) outcomes[0] = 'idle'
    // A peer whose envelopes were useless is still served, but the node takes nothing from it for a while.
    if (outcomes[0] !== 'hostile' && !isLeftOut(server, client.index, deps.round)) {
      outcomes[1] = handOver(speakers[0], server, deps)
    }
  }
  for (const [side, { node }] of speakers.entries()) {
    const peer = speakers[1 - side]!.node
    const outcome = outcomes[side]
    if (node.liar !== undefined) continue
    if (outcome !== undefined) leaveOut(node, peer.index, outcome, deps.round)
    if (peer.liar === undefined) {
      if (outcome === 'hostile') node.work.misjudged++
      continue
    }
    node.work.liarBytes += node.work.reconcileBytes - before[side]!.reconcileBytes
    node.work.liarMs += node.work.reconcileMs - before[side]!.reconcileMs
    node.work.liarEnvelopes += node.work.handedOver - before[side]!.handedOver
  }
}

function talk(speakers: [Speaker, Speaker], { random, lossShare }: SessionDeps): Talk {
  try {
    let message = speakers[0].open(random.bytes(SALT_BYTES))
    for (let turn = 1; ; turn = 1 - turn) {
      for (const { node } of speakers) node.work.reconcileBytes += message.length
      if (random.chance(lossShare)) return 'idle'
      const reply = speakers[turn]!.receive(message)
      if (reply === undefined) return 'fine'
      message = reply
    }
  } catch (error) {
    if (!(error instanceof ReconcileError)) throw error
    return error.code === 'RECONCILE_INVALID' ? 'hostile' : 'cut'
  }
}

function handOver(from: Speaker, to: SimulatedNode, { universe }: SessionDeps): Outcome {
  // These liars keep up with the market, so that only their lies stand out. The other liars learn nothing.
  if (to.liar !== undefined && to.liar !== 'forger' && to.liar !== 'futurist') return 'fine'
  let sent = 0
  let news = 0
  for (const key of from.have.toSorted((a, b) => compareKeys(b, a))) {
    const element = universe.placeOf(key)
    if (!from.node.replica.holds(element)) continue
    sent++
    to.work.handedOver++
    const taken = take(to, element, universe)
    if (taken === 'hostile' && to.liar === undefined) return 'hostile'
    if (taken === 'news') news++
    // Each change brings an old version and a new one. More useless envelopes mean that the peer sends its past.
    if (sent - news > USELESS_MAX + 2 * news) break
  }
  return news > 0 || sent === 0 ? 'fine' : 'idle'
}

function speakerOf(node: SimulatedNode, { random }: SessionDeps): Speaker {
  const { liar } = node
  if (liar !== undefined && !speaksTrue(liar)) {
    let isFirst = true
    return {
      node,
      have: [],
      open: () => openFalsely(liar, random),
      receive(message) {
        const reply = answerFalsely(liar, message, isFirst, random)
        isFirst = false
        return reply
      },
    }
  }
  const reconciliation = new Reconciliation(counting(node.replica.view(), node.work))
  const speaker: Speaker = {
    node,
    have: [],
    open: (salt) => timed(node.work, () => reconciliation.open({ salt })),
    receive: (message) =>
      timed(node.work, () => {
        const { have, reply } = reconciliation.receive(message)
        for (const key of have) speaker.have.push(key)
        return reply
      }),
  }
  return speaker
}

function counting(view: RangeView, work: Work): RangeView {
  return {
    size: view.size,
    rankOf: (bound) => view.rankOf(bound),
    keyAt: (rank) => view.keyAt(rank),
    keys: (from, to) => view.keys(from, to),
    sum(from, to) {
      work.sums++
      return view.sum(from, to)
    },
  }
}

function timed<T>(work: Work, run: () => T): T {
  const before = process.threadCpuUsage()
  try {
    return run()
  } finally {
    const { user, system } = process.threadCpuUsage(before)
    work.reconcileMs += (user + system) / 1000
  }
}
