import { RunSlotsFull } from '../agents/run-slots.ts'
import { PeerError } from './peer-error.ts'

/** What a caller is told when all places to run are taken: a `catch` for whatever waits for one. */
export function asOverloaded(error: unknown): never {
  if (error instanceof RunSlotsFull) throw new PeerError('OVERLOADED', 'all places to run are taken; try again later')
  throw error
}
