import type { ChannelReader, ChannelState } from '../../chain/batch-settlement.ts'
import { type Clock, momentOf } from '../../lib/clock.ts'
import { reasonOf } from '../../lib/errors.ts'
import { Lanes } from '../../lib/lane.ts'
import type { SignedVoucher } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'
import { refundDigest } from '../channel-digests.ts'
import type { ChannelRelay } from './channel-relay.ts'
import type { ChannelStep } from './channel-steps.ts'
import { type ClaimsDeps, signClaim } from './claims.ts'
import type { KeptChannels } from './kept-channels.ts'
import { claimOf, type SellerChannel } from './seller-channel.ts'

/** A refund costs this seller a transaction. Less than this the payer takes out by itself (hazard 4.19). */
const REFUND_MIN = 1_000n

/** `pending`: it is signed and may happen yet. Asked for again, it is the same refund. */
type RefundOutcome =
  | { kind: 'refunded'; amount: bigint; onChain: ChannelState; txHash: Hex | undefined }
  | { kind: 'refused' | 'pending'; reason: string }

type RefundsDeps = {
  clock: Clock
  reader: Pick<ChannelReader, 'channels'>
  relay: Pick<ChannelRelay, 'send'>
  kept: Pick<KeptChannels, 'seen' | 'agreeToRefund'>
  chainId: number
  authorizer: ClaimsDeps['authorizer']
}

/** Gives escrow back that no charge and no call needs. What the channel owes is claimed in the same transaction. */
export interface ChannelRefunds {
  /** @param wanted undefined: all that is free. Never rejects, but with the reason of `signal` */
  refund(id: Hex, wanted: bigint | undefined, signal: AbortSignal): Promise<RefundOutcome>
}

export function createChannelRefunds(deps: RefundsDeps): ChannelRefunds {
  const lanes = new Lanes()

  async function look(id: Hex, signal: AbortSignal): Promise<ChannelState> {
    const at = momentOf(deps.clock)
    const [onChain] = await deps.reader.channels([id], signal)
    await deps.kept.seen(id, onChain!, at)
    return onChain!
  }

  async function give(id: Hex, wanted: bigint | undefined, signal: AbortSignal): Promise<RefundOutcome> {
    await look(id, signal)
    if (wanted !== undefined && wanted < REFUND_MIN) {
      return {
        kind: 'refused',
        reason: `a refund of ${wanted} costs more than it moves: ask for at least ${REFUND_MIN}`,
      }
    }
    const agreed = await deps.kept.agreeToRefund(id, { wanted, amountMin: REFUND_MIN })
    if (agreed === undefined) return { kind: 'refused', reason: `less than ${REFUND_MIN} is free in this channel` }
    const { refund } = agreed
    const isDone = async (each: AbortSignal) => (await look(id, each)).refundNonce > refund.nonce
    const txHash = await send(agreed, deps, { isDone, signal })
    return { kind: 'refunded', amount: refund.amount, onChain: await look(id, signal), txHash }
  }

  return {
    refund: (id, wanted, signal) =>
      lanes.run(id, async () => {
        try {
          return await give(id, wanted, signal)
        } catch (error) {
          signal.throwIfAborted()
          return { kind: 'pending', reason: reasonOf(error) }
        }
      }),
  }
}

type Agreed = NonNullable<Awaited<ReturnType<KeptChannels['agreeToRefund']>>>
type Sending = { isDone(signal: AbortSignal): Promise<boolean>; signal: AbortSignal }

/** @returns the transaction that somebody names @throws CodedError CHANNEL_STEP_FAILED if the chain does not show it */
async function send({ channel, refund }: Agreed, deps: RefundsDeps, { isDone, signal }: Sending) {
  const digest = refundDigest({ channelId: channel.id, ...refund }, deps.chainId)
  const signed = { ...refund, signature: deps.authorizer.sign(digest) }
  const terms = { type: 'refund', config: channel.config, voucher: voucherOf(channel), refund: signed } as const
  const step = (claim: (ChannelStep & { type: 'refund' })['claim']): ChannelStep => ({ ...terms, claim })
  const owed = claimOf(channel) === undefined ? undefined : signClaim([channel], deps)
  try {
    return await deps.relay.send(step(owed), isDone, signal)
  } catch (error) {
    signal.throwIfAborted()
    if (owed === undefined) throw error
    // A claim that the contract refuses must not hold the buyer's money: the refund leaves what is charged.
    return deps.relay.send(step(undefined), isDone, signal)
  }
}

/** Facilitators want a voucher beside a refund, and do not check it. */
function voucherOf({ id, best }: SellerChannel): SignedVoucher {
  return best ?? { channelId: id, maxClaimableAmount: 0n, signature: `0x${'00'.repeat(65)}` }
}
