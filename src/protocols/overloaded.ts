import { RunSlotsFull } from '../agents/run-slots.ts'
import { PeerError } from './peer-error.ts'

/** A `catch` handler for work that waits for a run slot. It turns full slots into the answer `OVERLOADED`. */
export function asOverloaded(error: unknown): never {
  if (error instanceof RunSlotsFull) throw new PeerError('OVERLOADED', 'all places to run are taken; try again later')
  throw error
}
