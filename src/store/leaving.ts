import type { UnixMs } from '../lib/clock.ts'

/**
 * Why a node takes its money out of a payment channel: the operator wants it, nobody used the channel for long, or its
 * seller stated what cannot be true.
 */
type LeaveReason = 'asked' | 'idle' | 'stopped'

/** How a node takes its money out of a channel. What comes next follows from the chain: see payments/channels/buyer-exit.ts. */
export type Leaving = {
  why: LeaveReason
  /** `refund`: its seller is asked first. `withdraw`: the account of this node takes it out by itself. */
  way: 'refund' | 'withdraw'
  since: UnixMs
  /** When the seller was asked first. */
  askedAt?: UnixMs | undefined
  /** What went wrong last, and how often in a row. */
  trouble?: ExitTrouble | undefined
}

export type ExitTrouble = { step: 'refund' | 'withdrawal'; reason: string; count: number }

/** The reason may be the text of a seller, so no value is read as an amount. */
export const leavingText = (leaving: Leaving | undefined) => (leaving === undefined ? null : JSON.stringify(leaving))

export const readLeaving = (text: string | null) => (text === null ? undefined : (JSON.parse(text) as Leaving))
