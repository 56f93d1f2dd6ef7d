import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { ChannelSums } from '../api/types.ts'
import { count, money } from '../format.ts'
import { Figure } from './bits.tsx'

export function useChannelSums() {
  return useResource('/channels/sums', (signal) => call<ChannelSums>('/channels/sums', { signal }), {
    // No event tells of what the chain shows.
    everyMs: 10_000,
  })
}

const channels = (number: number) => (number === 1 ? '1 channel' : `${count(number)} channels`)

/** What this node has in channels to sellers. */
export function PayingFigures({ sums: { paying } }: { sums: ChannelSums }) {
  const { channels: number, locked, reserved, charged, withdrawing, stopped } = paying
  const notes = [
    channels(number),
    ...(withdrawing > 0 ? [`${withdrawing} with a withdrawal`] : []),
    ...(stopped > 0 ? [`${stopped} stopped`] : []),
  ]
  return (
    <dl className="figures">
      <Figure label="Locked" value={money(locked)} unit="USDC" note={notes.join(', ')} />
      <Figure label="Reserved" value={money(reserved)} unit="USDC" note="signed and not charged: part of locked" />
      <Figure label="Charged" value={money(charged)} unit="USDC" note="what calls have cost so far" />
    </dl>
  )
}

/** What buyers have in channels to this node. */
export function PaidFigures({ sums: { paid } }: { sums: ChannelSums }) {
  const { channels: number, deposited, charged, unclaimed, withdrawing } = paid
  const notes = [
    `deposits of buyers, not claimed, in ${channels(number)}`,
    ...(withdrawing > 0 ? [`${withdrawing} with a withdrawal`] : []),
  ]
  return (
    <dl className="figures">
      <Figure label="Not claimed" value={money(unclaimed)} unit="USDC" note="earned, and still in the channels" />
      <Figure label="Charged" value={money(charged)} unit="USDC" note="earned so far" />
      <Figure label="In the channels" value={money(deposited)} unit="USDC" note={notes.join(', ')} />
    </dl>
  )
}
