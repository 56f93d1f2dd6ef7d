import type { Reachability } from '../../schema/api.ts'
import { printableLine } from './terminal-text.ts'

export function reachabilityText({ state, addresses, relays, reason = '' }: Reachability): string {
  const says = {
    public: `from anywhere, at ${addresses[0] ?? 'its addresses'}`,
    relayed: `through ${relays.length === 1 ? `relay ${relays[0]}` : `relays ${relays.join(', ')}`}`,
    unreachable: `not from outside: ${reason}`,
    unknown: `not known: ${reason}`,
  }
  return printableLine(says[state], 500)
}
