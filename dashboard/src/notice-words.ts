import type { Approval } from './api/types.ts'
import { amount } from './format.ts'

const SEEN_MAX = 1_000

/** Those of `waiting` that have not been told yet. The first look tells nothing: what waits is on the page. */
export function newOnes<T extends { id: string }>(waiting: readonly T[], seen: Set<string>, isFirst: boolean): T[] {
  const fresh = waiting.filter(({ id }) => !seen.has(id))
  if (seen.size + fresh.length > SEEN_MAX) seen.clear()
  for (const { id } of waiting) seen.add(id)
  return isFirst ? [] : fresh
}

/** What a notice says. The words of the task stay on the page: a notice may be seen by others. */
export function wordsOf({ agent_name, amount: cost }: Pick<Approval, 'agent_name' | 'amount'>): [string, string] {
  return ['A purchase waits for your approval', `${agent_name}, ${amount(cost)}`]
}
