import { doubledMs } from '../../lib/retry.ts'
import { pause } from '../../lib/wait.ts'
import type { Payments, StoredPayment } from '../../store/payments.ts'
import { PeerError } from '../peer-error.ts'

/** How long an answer waits for another process of this seller. */
const WAIT_MS = 20_000
const PAUSE = { firstMs: 50, mostMs: 1_000 }

type ElsewhereDeps = { payments: Pick<Payments, 'get' | 'isElsewhere'>; waitMs?: number }

/**
 * Waits until no other process of this seller has a payment under way. Here nothing is known of the run, not even whether
 * the buyer will be charged.
 *
 * @returns the payment as it is then. @throws PeerError SETTLEMENT_FAILED if it takes too long: the buyer asks again
 */
export async function untilHere(
  stored: StoredPayment,
  signal: AbortSignal,
  { payments, waitMs = WAIT_MS }: ElsewhereDeps,
): Promise<StoredPayment> {
  const deadline = performance.now() + waitMs
  let seen = stored
  let isSeenAgain = false
  for (let looks = 1; ; looks++) {
    if (!mayRun(seen) || !(await payments.isElsewhere(seen.id))) {
      const latest = (await payments.get(seen.id)) ?? seen
      // A process may have left the payment, and another one may have claimed it since: that one is asked about too.
      if (latest.state !== 'authorized' || isSeenAgain) return latest
      seen = latest
      isSeenAgain = true
      continue
    }
    isSeenAgain = false
    if (performance.now() >= deadline) throw underWay()
    await pause(doubledMs(looks, PAUSE), signal)
    signal.throwIfAborted()
  }
}

/** The error for a payment that another process of this seller has under way. */
export function underWay(): PeerError {
  const reason = 'another process of this seller has this payment under way: ask for its result later'
  return new PeerError('SETTLEMENT_FAILED', reason)
}

function mayRun({ state, task, ran }: StoredPayment): boolean {
  return state === 'authorized' || (task !== undefined && !ran && (state === 'owed' || state === 'settled'))
}
