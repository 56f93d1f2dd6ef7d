import { createTurns } from '../lib/turns.ts'

/** Some 60 µs each where the curve is native, and twenty times that where it is not. */
const SIGNATURES_PER_TURN = 8

/** Resolves when another signature may be made or recovered: of all who wait, a few in each turn of the event loop. */
export const signatureTurn = createTurns(SIGNATURES_PER_TURN)
