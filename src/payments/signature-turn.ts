import { createTurns } from '../lib/turns.ts'

/**
 * Signatures per turn of the event loop. One takes about 60 µs on the native curve, and 20 times as long without it. The calls
 * of one turn share its commits. With 8 signatures per turn, each call takes an eighth more CPU time.
 */
const SIGNATURES_PER_TURN = 16

/** Resolves when the caller may sign or recover. Each turn of the event loop admits a few waiting callers. */
export const signatureTurn = createTurns(SIGNATURES_PER_TURN)

/** Like `signatureTurn`, for callers that no stream of a peer paces. */
export const doorSignatureTurn = createTurns(SIGNATURES_PER_TURN)
