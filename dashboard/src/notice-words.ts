import type { Approval } from './api/types.ts'
import { amount } from './format.ts'

const SEEN_MAX = 1_000

/**
 * The items of `waiting` that have not been announced. The first call announces nothing, because the page shows these
 * items.
 */
export function newOnes<T extends { id: string }>(waiting: readonly T[], seen: Set<string>, isFirst: boolean): T[] {
  const fresh = waiting.filter(({ id }) => !seen.has(id))
  if (seen.size + fresh.length > SEEN_MAX) seen.clear()
  for (const { id } of waiting) seen.add(id)
  return isFirst ? [] : fresh
}

/** The text of a notification. It leaves out the task, because other people may see the notification. */
export function wordsOf({ agent_name, amount: cost }: Pick<Approval, 'agent_name' | 'amount'>): [string, string] {
  return ['A purchase waits for your approval', `${agent_name}, ${amount(cost)}`]
}
