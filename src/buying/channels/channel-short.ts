/** The channel does not pay this call. Nothing left this node. */
export class ChannelShort extends Error {
  override name = 'ChannelShort'
  constructor(reason: keyof typeof SHORT) {
    super(SHORT[reason])
  }
}
const SHORT = {
  stopped: 'the channel has stopped',
  early: 'too many charges of the channel wait for an earlier one, which its seller has not stated',
  balance: 'the deposits of the channel are used up',
  leaving: 'this node takes its money out of the channel',
} as const
