import { page } from './client.ts'
import { useResource } from './resource.ts'
import type { Approval } from './types.ts'

/** The purchases that wait for approval. Header, overview, orders and the approvals page share one request. */
export function useWaiting(isWanted = true) {
  const key = isWanted ? 'waiting' : undefined
  return useResource(key, (signal) => page<Approval>('/approvals', { status: 'pending' }, signal), {
    topics: ['approval'],
    everyMs: 5_000,
  })
}
