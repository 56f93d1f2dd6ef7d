import { call } from './client.ts'
import { useResource } from './resource.ts'
import type { Alarm } from './types.ts'

/** The node's alarms: groups of events that need a person (D42). */
export function useAlarms() {
  return useResource('/alarms', (signal) => call<Alarm[]>('/alarms', { signal }), {
    topics: ['payment', 'status', 'listing'],
    everyMs: 15_000,
  })
}
