import type { LiarKind } from './liars.ts'
import type { SimulatedReplica } from './replica.ts'
import type { Universe } from './universe.ts'

/** The work and the cost of a node. */
export type Work = {
  sessions: number
  /** Bytes of reconciliation, in both directions. */
  reconcileBytes: number
  reconcileMs: number
  /** Number of range sums that were computed. */
  sums: number
  /** Envelopes received by reconciliation and gossip. */
  handedOver: number
  gossiped: number
  /** Signatures checked, and the false ones among them. */
  verified: number
  forged: number
  /** Honest peers that the node took for hostile. */
  misjudged: number
  /** The part of these envelopes, bytes and times that liars caused. */
  liarEnvelopes: number
  liarBytes: number
  liarMs: number
}

export type SimulatedNode = {
  index: number
  liar: LiarKind | undefined
  replica: SimulatedReplica
  online: boolean
  /** The part of the split network to which the node belongs. */
  group: number
  /** The round in which the node comes back. */
  backIn: number
  /** Peers that are skipped for some rounds, as in catch-up.ts. */
  leftOut: Map<number, { rounds: number; until: number }>
  work: Work
}

export type Taken = 'news' | 'unwanted' | 'hostile'

const ROUNDS_LEFT_OUT_MAX = 64

export function emptyWork(): Work {
  return {
    sessions: 0,
    reconcileBytes: 0,
    reconcileMs: 0,
    sums: 0,
    handedOver: 0,
    gossiped: 0,
    verified: 0,
    forged: 0,
    misjudged: 0,
    liarEnvelopes: 0,
    liarBytes: 0,
    liarMs: 0,
  }
}

/** How an honest node handles any envelope, in the order of signed-listing.ts: the signature check comes last. */
export function take({ replica, work }: SimulatedNode, element: number, universe: Universe): Taken {
  const kind = universe.kindOf(element)
  if (kind === 'future') return 'unwanted'
  const judged = replica.judge(element)
  if (judged !== 'added' && judged !== 'replaced') return 'unwanted'
  work.verified++
  if (kind === 'forged') {
    work.forged++
    return 'hostile'
  }
  replica.merge(element)
  return 'news'
}

/**
 * As in catch-up.ts: a peer that brings nothing new is skipped for 1, 2, 4 … rounds, and a hostile peer for the
 * maximum.
 */
export function leaveOut(node: SimulatedNode, peer: number, outcome: 'fine' | 'idle' | 'hostile', round: number): void {
  if (outcome === 'fine') {
    node.leftOut.delete(peer)
    return
  }
  const before = node.leftOut.get(peer)?.rounds ?? 1
  const rounds = outcome === 'hostile' ? ROUNDS_LEFT_OUT_MAX : Math.min(2 * before, ROUNDS_LEFT_OUT_MAX)
  node.leftOut.set(peer, { rounds, until: round + rounds })
}

export function isLeftOut(node: SimulatedNode, peer: number, round: number): boolean {
  return (node.leftOut.get(peer)?.until ?? 0) > round
}
