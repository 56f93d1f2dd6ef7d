import { createTurns } from '../lib/turns.ts'

/** Signatures per turn of the event loop. One takes about 60 µs on the native curve, and twenty times that without. */
const SIGNATURES_PER_TURN = 8

/** Resolves when the caller may sign or recover. Each turn of the event loop admits a few waiting callers. */
export const signatureTurn = createTurns(SIGNATURES_PER_TURN)
