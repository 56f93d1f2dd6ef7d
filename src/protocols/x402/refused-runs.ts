import { PeerError } from '../peer-error.ts'

/** Replaces a run that could not be settled afterwards, for a buyer that refuses settlement before the run (D45). */
export async function runTooLate(): Promise<never> {
  const reason =
    'the turn of this run came too late to settle its payment afterwards, and its buyer does not allow settlement before the run'
  throw new PeerError('EXECUTION_FAILED', `${reason}: nothing was charged`, { retryable: true })
}

/** Replaces a run for which the limits have no room left, for a buyer that refuses settlement before the run (D45). */
export async function runOverLimit(): Promise<never> {
  const reason =
    'this seller takes no more unsettled work now, and the buyer of this payment does not allow settlement before the run'
  throw new PeerError('EXECUTION_FAILED', `${reason}: nothing was charged`, { retryable: true })
}
