import type { Service } from '../lib/lifecycle.ts'
import { within } from '../lib/wait.ts'
import { NodeStopping } from '../listings/market-error.ts'
import type { Flights } from './flights.ts'
import type { ActiveOrders } from './run-order.ts'

/** Time that running executions have to record their state when the node stops. */
const EXECUTIONS_END_MS = 1_000

/** When the node stops, waiting callers get an error. The recovery takes up signed orders at the next start. */
export function executions(active: ActiveOrders, flights: Flights): Service {
  return {
    name: 'executions',
    start: async () => {},
    async stop() {
      for (const cancel of active.values()) cancel(new NodeStopping())
      await within(EXECUTIONS_END_MS, Promise.allSettled([...flights.values()].map(({ result }) => result)))
    },
  }
}
