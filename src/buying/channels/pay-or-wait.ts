import { type Clock, monotonicOf } from '../../lib/clock.ts'
import type { Logger } from '../../lib/logger.ts'
import { idle } from '../../lib/wait.ts'
import type { Order } from '../../store/order-row.ts'
import type { Terms } from '../guard.ts'
import type { ChannelLine } from './channel-line.ts'
import { ChannelShort } from './channel-short.ts'
import type { Channels } from './channels.ts'
import type { CallPayer } from './place-deposit.ts'

const LOOK_MS = 250
/** How long a call waits for a deposit. */
const WAIT_MS_MAX = 15_000
/** How often a call looks at once for a channel that others use up before it. */
const SHORTS_MAX = 3

/**
 * Pays a call by a channel if one pays it now, or if the deposit that is on its way is worth a short wait.
 *
 * @param pay rejects with ChannelShort if nothing of the call is on disk and the channel does not pay it
 * @returns undefined: the call is paid for by itself
 * @throws the reason of `signal`; what `pay` throws
 */
export async function payOrWait<Paid>(
  { terms, wish, payer }: { terms: Terms; wish: Order['channelWish']; payer?: CallPayer },
  pay: (line: ChannelLine) => Promise<Paid | undefined>,
  { channels, logger, clock }: { channels: Pick<Channels, 'lineFor' | 'isAwaited'>; logger: Logger; clock: Clock },
  signal: AbortSignal,
): Promise<Paid | undefined> {
  const end = monotonicOf(clock) + WAIT_MS_MAX
  let shorts = 0
  let need: 'waiting' | undefined
  for (;;) {
    let short: ChannelShort | undefined
    const line = channels.lineFor(terms, wish, payer, need)
    try {
      if (line !== undefined) return await pay(line)
    } catch (error) {
      if (!(error instanceof ChannelShort)) throw error
      short = error
    }
    need = 'waiting'
    // Calls that began together have used the channel up. A look after that begins a deposit.
    if (short !== undefined && ++shorts < SHORTS_MAX) continue
    if (monotonicOf(clock) >= end || !channels.isAwaited(terms, wish)) {
      if (short) logger.info({ reason: short.message }, 'a channel does not pay a call; it is paid for by itself')
      return undefined
    }
    await idle(LOOK_MS, signal)
    signal.throwIfAborted()
  }
}
