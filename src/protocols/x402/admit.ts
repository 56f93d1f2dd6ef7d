import { type RunSlot, RunSlotsFull } from '../../agents/run-slots.ts'
import { ownerOfCaller, STRANGER } from '../../schema/caller.ts'
import { doorOfCaller } from '../../schema/door.ts'
import { PeerError } from '../peer-error.ts'
import type { PaidRunDeps } from './exchange.ts'

/**
 * Admits a call that will wait for a run.
 *
 * @param options.isFree true if nobody pays for it. @throws PeerError OVERLOADED at once if too many calls are admitted
 */
export function admit(
  callerDid: string,
  { slots }: Pick<PaidRunDeps, 'slots'>,
  options: { isFree?: boolean } = {},
): RunSlot {
  try {
    return slots.admit(queueOf(callerDid), options)
  } catch (error) {
    return asOverloaded(error)
  }
}

/**
 * Each peer has a queue. Strangers share one over all doors of the public listener, because they can choose any name, or
 * make any account. A2A calls of this node's own API share another.
 */
function queueOf(callerDid: string): string {
  if (callerDid.startsWith('did:')) return callerDid
  const isStranger = doorOfCaller(callerDid) !== undefined || ownerOfCaller(callerDid) === STRANGER.tokenId
  return isStranger ? STRANGER.tokenId! : callerDid.split(':', 1)[0]!
}

/** True if a call of this caller could be admitted. */
export function hasRoomFor(callerDid: string, { slots }: Pick<PaidRunDeps, 'slots'>): boolean {
  return slots.hasRoom(queueOf(callerDid))
}

export function asOverloaded(error: unknown): never {
  if (error instanceof RunSlotsFull) throw new PeerError('OVERLOADED', 'all run slots are taken; try again later')
  throw error
}
