import type { ChannelStatement } from '../../schema/channel.ts'

/** What a seller says of itself beside the reason: see `ChannelStatement`. */
type Known = Pick<ChannelStatement, 'counted' | 'voucher'>

/** A seller does not take a call on a channel. Nothing was charged, and nothing ran. */
export class ChannelRefused extends Error {
  override name = 'ChannelRefused'
  readonly statement: ChannelStatement

  constructor(reason: ChannelStatement['reason'], message: string, known: Known = {}) {
    super(message)
    this.statement = { reason, ...known }
  }
}

/** A seller can take no more calls on channels now. Nothing was charged. */
export class ChannelsBusy extends Error {
  override name = 'ChannelsBusy'
}

/** The error for a channel that another process of this seller has. */
export function elsewhere(): ChannelRefused {
  return new ChannelRefused('elsewhere', 'another process of this seller has this channel; nothing was charged here')
}
