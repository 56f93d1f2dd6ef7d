import type { Channel } from '../api/types.ts'
import { type ChannelShare, sharesOf, usdcText } from '../channel-words.ts'
import { money } from '../format.ts'

const words: Record<Channel['role'], Record<ChannelShare['name'], [string, string]>> = {
  buyer: {
    claimed: ['claimed', 'the seller has it'],
    unclaimed: ['charged', 'spent, and not claimed by the seller yet'],
    signed: ['reserved', 'signed beyond the charges: the seller could take it'],
    free: ['not signed', 'for the next calls, and the seller has no signature for it'],
  },
  seller: {
    claimed: ['claimed', 'yours'],
    unclaimed: ['charged', 'earned, and not claimed yet'],
    signed: ['signed', 'the buyer has signed for it, and nothing is charged yet'],
    free: ['free', 'for the next calls of the buyer'],
  },
}

/** The deposits of a channel as a bar, and the same in words. */
export function ChannelBar({ channel }: { channel: Channel }) {
  const shares = sharesOf(channel)
  if (shares.length === 0) return null
  return (
    <>
      <div className="channel-bar" aria-hidden="true">
        {shares.map(({ name, percent }) => (
          <span key={name} className={name} style={{ flexGrow: percent }} />
        ))}
      </div>
      <ul className="channel-legend" aria-label="What became of the deposits">
        {shares.map(({ name, amount, percent }) => {
          const [word, says] = words[channel.role][name]
          return (
            <li key={name}>
              <span className={`swatch ${name}`} aria-hidden="true" />
              <span>
                <strong>
                  {money(usdcText(amount))} <span className="unit">USDC</span>
                </strong>{' '}
                {word}
                <span className="figure-note">
                  {says} ({Math.round(percent)} %)
                </span>
              </span>
            </li>
          )
        })}
      </ul>
    </>
  )
}
