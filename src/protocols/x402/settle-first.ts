import { faultPoint } from '../../lib/fault-point.ts'
import type { Hold } from '../../lib/hold.ts'
import { RUN_CANCELED } from '../../schema/limits.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { Claim } from '../../store/payments.ts'
import { PeerError } from '../peer-error.ts'
import type { Caller, PaidRunDeps } from './exchange.ts'

/**
 * Settles a claimed payment before its run (D45).
 *
 * @param unrun kept once the payment is in the outbox, whose work is never lost
 * @throws PeerError SETTLEMENT_FAILED if the payment is not settled in time; EXECUTION_FAILED if its caller has canceled it
 */
export async function settleFirst(
  claim: Claim,
  unrun: Hold,
  { signal }: Pick<Caller, 'signal'>,
  { settler, deferred }: Pick<PaidRunDeps, 'settler' | 'deferred'>,
): Promise<Hex> {
  // Nobody wants the run any more, so nobody may be charged for it.
  if (signal.aborted) throw new PeerError('EXECUTION_FAILED', RUN_CANCELED)
  const txHash = await settler.settleFirst(claim)
  faultPoint('seller:settled-first')
  if (txHash !== undefined) {
    unrun.keep()
    return txHash
  }
  // Store this before the buyer learns of it. If the payment settles later, its work is run, and the buyer may send the
  // same payment again (D39).
  await deferred.defer(claim.id)
  unrun.keep()
  const reason =
    'this seller settles before the agent runs, and the payment is not settled yet: send the same payment again later'
  throw new PeerError('SETTLEMENT_FAILED', reason)
}
