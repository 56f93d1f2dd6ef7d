import { createTurns } from '../lib/turns.ts'

/** Signatures per turn of the event loop. One takes about 60 µs on the native curve, and twenty times that without. */
const SIGNATURES_PER_TURN = 8
/** The same at doors. Calls that are claimed in one turn share its commits until they are settled, with the pages that these write. */
const AT_DOORS_PER_TURN = 16

/** Resolves when the caller may sign or recover. Each turn of the event loop admits a few waiting callers. */
export const signatureTurn = createTurns(SIGNATURES_PER_TURN)

/** Like `signatureTurn`, for callers that no stream of a peer paces. */
export const doorSignatureTurn = createTurns(AT_DOORS_PER_TURN)
