import { CodedError } from '../lib/errors.ts'

/** `STORE_AWAY`: the database cannot be reached. What was asked for is not done, and may be asked for again. */
export class StoreError extends CodedError<
  'STORE_UNREADABLE' | 'STORE_NEWER' | 'STORE_WRITE_FAILED' | 'STORE_DAMAGED' | 'STORE_IN_USE' | 'STORE_AWAY'
> {
  override name = 'StoreError'
}
