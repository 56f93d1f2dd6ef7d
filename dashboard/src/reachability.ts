import type { NodeStatus, Reachability } from './api/types.ts'

/** Nodes of the first version say one word. */
export function reachabilityOf({ reachability }: NodeStatus): Reachability {
  if (typeof reachability !== 'string') return reachability
  if (reachability === 'public') return { state: 'public' }
  return { state: reachability === 'private' ? 'unreachable' : 'unknown' }
}

export const reachabilityText: Record<Reachability['state'], string> = {
  public: 'Reachable from anywhere',
  relayed: 'Reachable through a relay',
  unreachable: 'Not reachable from outside',
  unknown: 'Reachability not known yet',
}
