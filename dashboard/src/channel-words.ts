import type { Channel } from './api/types.ts'
import { span } from './format.ts'
import type { Tone } from './parts/bits.tsx'

/** The states of a payment channel, each with one meaning. */
export const channelStates: Record<Channel['state'], { tone: Tone; says: string }> = {
  opening: { tone: 'busy', says: 'the first deposit is not on the chain yet; calls are paid for one by one' },
  open: { tone: 'good', says: 'calls are paid for on this channel' },
  leaving: { tone: 'warn', says: 'the buyer takes its money out, and asks the seller for it' },
  withdrawing: { tone: 'warn', says: 'the payer takes money out' },
  stopped: { tone: 'bad', says: 'this node signs no more on this channel' },
  empty: { tone: 'plain', says: 'nothing lies in this channel' },
  closed: { tone: 'plain', says: 'the buyer has taken its money out' },
}

/** `can end in 23 h 4 min`. The clock of the chain decides, which may be some seconds behind. */
export function withdrawalClock({ ends_at }: NonNullable<Channel['withdrawal']>, now: number): string {
  const seconds = (Date.parse(ends_at) - now) / 1000
  return seconds < 60 ? 'can end at any moment' : `can end in ${span(seconds)}`
}

export type ChannelShare = { name: 'claimed' | 'unclaimed' | 'signed' | 'free'; amount: bigint; percent: number }

/** The deposits of a channel by what became of them. The parts make the whole. */
export function sharesOf(channel: Channel): ChannelShare[] {
  const [balance, charged, claimed, signed] = [
    channel.balance_atomic,
    channel.charged_atomic,
    channel.claimed_atomic,
    channel.signed_atomic,
  ].map(BigInt) as [bigint, bigint, bigint, bigint]
  if (balance === 0n) return []
  // A withdrawal may have taken out what was charged or signed for.
  const ends = { claimed, unclaimed: charged, signed, free: balance }
  let from = 0n
  return Object.entries(ends).flatMap(([name, end]) => {
    const amount = within(end, balance) - from
    if (amount <= 0n) return []
    from += amount
    const percent = Number((amount * 10_000n) / balance) / 100
    return [{ name: name as ChannelShare['name'], amount, percent }]
  })
}

function within(end: bigint, balance: bigint): bigint {
  if (end > balance) return balance
  return end
}

/** `1500000n` → `1.5`. */
export function usdcText(atomic: bigint): string {
  const whole = atomic / 1_000_000n
  const fraction = `${atomic % 1_000_000n}`.padStart(6, '0').replace(/0+$/, '')
  return fraction === '' ? `${whole}` : `${whole}.${fraction}`
}
