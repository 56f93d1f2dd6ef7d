import type { ChannelState } from '../../chain/batch-settlement.ts'
import { largest } from '../../lib/bigints.ts'
import type { Moved } from '../../store/buyer-channels.ts'

type Counted = { onChain: Pick<ChannelState, 'balance'>; moved: Moved }

/**
 * What lies in a channel: what this node has put in and has not seen leave, or more if the chain shows more. An RPC that
 * lags or lies may show less for a while. This node makes no second deposit because of it.
 */
export function heldIn({ onChain, moved }: Counted): bigint {
  return largest(onChain.balance, moved.in - moved.out)
}

/** What was put in, has not been seen to leave, and is not shown by the chain. */
export function missingIn({ onChain, moved }: Counted): bigint {
  return largest(moved.in - moved.out - onChain.balance, 0n)
}
