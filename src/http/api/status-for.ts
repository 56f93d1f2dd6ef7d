import type { NodeStatus } from '../../schema/api.ts'
import { type Caller, permits } from '../../schema/caller.ts'
import { withoutPlace } from '../../store/store-error.ts'

/** The status as a caller reads it. Only who may do everything reads where the ledger is. */
export function statusFor({ scope }: Caller, status: NodeStatus): NodeStatus {
  if (permits(scope, 'admin')) return status
  const { database, trading, refused_change: refused } = status
  const { code } = trading ?? {}
  const isOfStore = code === 'STORE_DAMAGED' || code === 'STORE_IN_USE'
  return {
    ...status,
    ...(database && { database: { ...database, reason: withoutPlace('STORE_AWAY') } }),
    ...(refused !== undefined && { refused_change: withoutPlace('STORE_WRITE_FAILED') }),
    ...(isOfStore && { trading: { ...trading!, reason: withoutPlace(code) } }),
  }
}
