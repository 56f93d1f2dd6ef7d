import type { Reachability } from './api/types.ts'

export const reachabilityText: Record<Reachability['state'], string> = {
  public: 'Reachable from anywhere',
  relayed: 'Reachable through a relay',
  unreachable: 'Not reachable from outside',
  unknown: 'Reachability not known yet',
}
