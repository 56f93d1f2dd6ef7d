import { PeerError } from '../protocols/peer-error.ts'
import { mayAskElsewhere } from './outcome.ts'

/** Which process of a seller is asked. `instead`: not the process at the end of this stream. `refusal`: the last answer. */
export type Ask<S> = {
  readonly count: number
  readonly mayRefer: boolean
  readonly instead?: S | undefined
  readonly refusal?: unknown
}

/** The first process may send the call on, if another one is free. */
export const FIRST_ASK = { count: 1, mayRefer: true } as const

/** One process, another one, and a third time if both were busy: each may have taken the other for free. */
const ASKS_MAX = 3

/**
 * Returns which process of the seller to ask after a refusal. If two were busy, the third ask makes the call wait in a queue:
 * only the first ask allows a referral.
 *
 * @throws the refusal, if it is the last word
 */
export function nextAsk<S>(last: Ask<S>, refusal: unknown, stream: S): Ask<S> {
  const isThird = last.count === ASKS_MAX - 1
  if (!mayAskElsewhere(refusal) || last.count >= ASKS_MAX) throw refusal
  if (isThird && !(isReferral(last.refusal) && isReferral(refusal))) throw refusal
  return { count: last.count + 1, mayRefer: false, instead: stream, refusal }
}

/**
 * Asks another process of the seller if the first one refuses, which then has done nothing: see `nextAsk`. Without
 * another process, the first one is asked again or has the last word.
 *
 * @param attempt names the stream that it uses; `instead`: one at whose end is the process that refused
 */
export async function atAnyProcess<S, T>(
  attempt: (ask: Pick<Ask<S>, 'instead' | 'mayRefer'>, use: (stream: S) => void) => Promise<T>,
): Promise<T> {
  let used: S | undefined
  const use = (stream: S) => {
    used = stream
  }
  let ask: Ask<S> = FIRST_ASK
  for (;;) {
    used = undefined
    try {
      return await attempt(ask, use)
    } catch (error) {
      const stream = used as S | undefined
      if (stream !== undefined) {
        if (!(error instanceof PeerError)) throw error
        ask = nextAsk(ask, error, stream)
      } else {
        if (ask.instead === undefined) throw ask.refusal ?? error
        if (!isReferral(ask.refusal)) throw ask.refusal
        ask = { ...ask, instead: undefined }
      }
    }
  }
}

/** True if the process may have sent the call on because another one was free a moment ago. */
export function isReferral(refusal: unknown): boolean {
  return refusal instanceof PeerError && refusal.code === 'OVERLOADED'
}
