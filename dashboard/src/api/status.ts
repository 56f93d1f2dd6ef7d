import { call } from './client.ts'
import { useResource } from './resource.ts'
import type { NodeStatus } from './types.ts'

/** The status of the node. Header, menu and pages share one request. */
export function useStatus() {
  return useResource('/status', (signal) => call<NodeStatus>('/status', { signal }), {
    topics: ['status', 'listing', 'payment'],
  })
}

/** Why the ledger cannot be read now. Undefined: it can, or nothing is known yet. */
export function useLedgerAway(): string | undefined {
  return useStatus().data?.database?.reason
}
