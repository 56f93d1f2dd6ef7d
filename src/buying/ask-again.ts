import type { Clock } from '../lib/clock.ts'
import { doubledMs } from '../lib/retry.ts'
import { pause } from '../lib/wait.ts'
import type { FramedStream } from '../protocols/framed-stream.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { StreamPeer, StreamPool } from '../protocols/streams.ts'
import type { ReceivedResponse } from '../protocols/x402/answers.ts'
import { askX402Result, type Call, callX402Preemptively } from '../protocols/x402/client.ts'
import type { Reservation } from '../store/purchases.ts'
import { outcomeOf } from './outcome.ts'
import { isReferral } from './processes-asked.ts'
import { onStream } from './stream-lease.ts'

/** Pauses before a result is asked for again. */
const BACKOFF = { firstMs: 200, mostMs: 5_000 }
/** Resend a payment only if this much of its window is left: the seller needs time to run and settle. */
const RESEND_MARGIN_SECONDS = 15

/** A call whose payment is signed. From here on the buyer asks and sends with this payment only. */
type SignedCall = { reservation: Reservation; call: Call; seller: StreamPeer }
type AskDeps = { clock: Clock; streams: StreamPool }

/**
 * Fetches a paid result after the connection was lost. Works after a restart of either side.
 *
 * If the seller never saw the payment, sends the same payment again. An authorization can be spent only once, so asking
 * again is safe.
 */
export async function askUntilKnown(signed: SignedCall, deps: AskDeps, signal: AbortSignal): Promise<ReceivedResponse> {
  const { reservation, call, seller } = signed
  const { streams, clock } = deps
  for (let turn = 1; ; turn++) {
    try {
      return await onStream(
        { seller, streams, urgent: true },
        ({ stream }) => askX402Result(stream, call, reservation.envelope, signal),
        signal,
      )
    } catch (error) {
      signal.throwIfAborted()
      const outcome = outcomeOf(error, 'result')
      const maySend = hasTime(reservation, clock)
      if (outcome === 'last word' || (outcome === 'send again' && !maySend)) throw error
      if (outcome === 'send again') {
        const response = await sendAgain(signed, deps, signal)
        if (response !== undefined) return response
      }
    }
    await pause(doubledMs(turn, BACKOFF), signal)
    signal.throwIfAborted()
  }
}

/** @returns undefined if the seller must be asked for the result again */
async function sendAgain(
  { reservation, call, seller }: SignedCall,
  { streams }: AskDeps,
  signal: AbortSignal,
): Promise<ReceivedResponse | undefined> {
  try {
    return await onStream(
      { seller, streams },
      ({ stream }) => callX402Preemptively(stream, call, reservation.envelope, signal),
      signal,
    )
  } catch (error) {
    signal.throwIfAborted()
    if (outcomeOf(error, 'payment again') === 'last word') throw error
    return undefined
  }
}

/**
 * Sends a payment to another process of the seller, if the first one leaves it: it lost the machine of the run. An
 * authorization can be spent only once, so two answers cannot charge twice.
 *
 * @throws the refusal, if the buyer must ask what became of the payment; PeerError that is the last word of the other process
 */
export async function sendElsewhere(
  { reservation, call, seller }: SignedCall,
  { refusal, instead }: { refusal: unknown; instead: FramedStream },
  { streams, clock }: AskDeps,
  signal: AbortSignal,
): Promise<ReceivedResponse> {
  if (!isReferral(refusal) || !hasTime(reservation, clock)) throw refusal
  try {
    return await onStream(
      { seller, streams, instead, urgent: true },
      ({ stream }) => callX402Preemptively(stream, call, reservation.envelope, signal),
      signal,
    )
  } catch (error) {
    throw error instanceof PeerError && outcomeOf(error, 'payment again') === 'last word' ? error : refusal
  }
}

function hasTime({ validBeforeSeconds }: Reservation, clock: Clock): boolean {
  return validBeforeSeconds - clock.now() / 1000 > RESEND_MARGIN_SECONDS
}
