import type { OwnAgent } from './api/types.ts'

/** The state of an own agent, for a badge and as text. */
export function stateOf({
  paused,
  listed,
  notice,
  runnable,
  sold_elsewhere: isSold,
}: OwnAgent): [badge: string, text: string] {
  if (paused) return ['paused', 'paused']
  if (isSold) return ['ok', 'on sale at another process']
  if (!runnable) return ['failed', 'cannot run']
  if (notice !== undefined) return ['failed', 'needs attention']
  return listed ? ['ok', 'on sale'] : ['pending', 'not listed yet']
}
