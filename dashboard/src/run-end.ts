import type { Execution } from './api/types.ts'

/** How a run ended, for a badge. A run that its caller canceled has an error, and did not fail. */
export function endOf({ error, canceled }: Pick<Execution, 'error' | 'canceled'>): 'completed' | 'failed' | 'canceled' {
  if (error === undefined) return 'completed'
  return canceled === true ? 'canceled' : 'failed'
}
