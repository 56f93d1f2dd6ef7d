import { CodedError } from '../../../lib/errors.ts'

/**
 * `RECONCILE_INVALID`: no honest peer sends this. `RECONCILE_LIMIT`: the session takes more rounds, bytes or ranges
 * than we allow, as with an honest peer if very much differs. The differences found until then stay valid.
 */
export class ReconcileError extends CodedError<'RECONCILE_INVALID' | 'RECONCILE_LIMIT'> {
  override name = 'ReconcileError'
}

export function invalid(reason: string): ReconcileError {
  return new ReconcileError('RECONCILE_INVALID', reason)
}
