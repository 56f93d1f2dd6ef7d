import type { ChannelState } from '../../chain/batch-settlement.ts'
import type { Charge } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { ChannelCall } from '../../store/channel-calls.ts'
import type { NewExchange } from '../../store/exchanges.ts'
import type { StoredSellerChannel } from '../../store/seller-channels.ts'
import { type AskedCall, takeCalls } from './call-turn.ts'
import {
  chargeCall,
  forgetVoucher,
  keepFirst,
  type RefundAsk,
  releaseCall,
  type SellerChannel,
  seenOnChain,
  signRefund,
  type TakenVoucher,
} from './seller-channel.ts'

/** How a call has ended. Without a charge it has failed. */
export type CallEnd = {
  id: Hex
  peerId: string
  /** What was reserved for it. */
  asked: bigint
  /** What the call has brought, if a claim must show no voucher of a call that costs nothing. */
  taken?: TakenVoucher | undefined
  /** Undefined: nothing is stored and nothing is charged. */
  stored:
    | { amount: bigint | undefined; exchange: NewExchange; metered?: Pick<Charge, 'units' | 'cut'> | undefined }
    | undefined
}

type Answer<T> = { resolve(value: T): void; reject(reason: unknown): void }
export type Ask = AskedCall & Answer<void>
export type End = CallEnd & Answer<Charge | undefined>
/** A refund that this seller has agreed to, and its channel. Undefined: too little is free. */
export type AgreedRefund = ReturnType<typeof signRefund>
export type AskedRefund = RefundAsk & Answer<AgreedRefund>
/** What changes from turn to turn. */
export type ChannelSums = { peerId: string; channel: SellerChannel }
/** The change of one turn, and who waits for it. */
export type Turn = {
  next: ChannelSums
  taken: Ask[]
  ended: { end: End; charge: Charge | undefined }[]
  calls: ChannelCall[]
  agreed: { refund: AskedRefund; given: AgreedRefund }[]
}

export type Queued = {
  asks: readonly Ask[]
  ends: readonly End[]
  refunds: readonly AskedRefund[]
  /** A new reading of the chain. */
  seen: ChannelState | undefined
  /** Why no call can begin. */
  closed: unknown
}

/** What changes in one turn. Calls that are refused hear of it at once. */
export function judgeTurn(before: ChannelSums, queued: Queued, chainId: number): { turn: Turn; blamed: string[] } {
  const { asks, ends, refunds, seen, closed } = queued
  const { channel, ended, calls } = endCalls(
    seen === undefined ? before.channel : seenOnChain(before.channel, seen),
    ends,
  )
  if (closed !== undefined) for (const ask of asks) ask.reject(closed)
  const judged = takeCalls({ ...before, channel }, closed === undefined ? asks : [], chainId)
  for (const { call, error } of judged.refused) call.reject(error)
  let next: ChannelSums = judged.state
  const agreed = refunds.map((refund) => {
    const given = signRefund(next.channel, refund)
    if (given !== undefined) next = { ...next, channel: given.channel }
    return { refund, given }
  })
  return { turn: { next, taken: judged.taken, ended, calls, agreed }, blamed: judged.blamed }
}

function endCalls(
  before: SellerChannel,
  ends: readonly End[],
): Pick<Turn, 'ended' | 'calls'> & { channel: SellerChannel } {
  let channel = before
  const ended: Turn['ended'] = []
  const calls: ChannelCall[] = []
  for (const end of ends) {
    const { id, peerId, asked, stored, taken } = end
    const amount = stored?.amount
    let charge: Charge | undefined
    if (amount === undefined) {
      const released = releaseCall(channel, asked)
      channel = taken === undefined ? released : forgetVoucher(released, taken)
    } else {
      const charged = chargeCall(channel, { asked, amount })
      channel = taken === undefined ? charged.channel : keepFirst(charged.channel, taken, charged.charge)
      charge = { ...charged.charge, ...stored?.metered }
    }
    ended.push({ end, charge })
    if (stored !== undefined) calls.push({ id, peerId, charge, exchange: stored.exchange })
  }
  return { channel, ended, calls }
}

/** False if only times differ. */
export function isNews(next: StoredSellerChannel, stored: StoredSellerChannel): boolean {
  return factsOf(next) !== factsOf(stored)
}

function factsOf({ peerId, onChain, best, charged, seq, refund }: StoredSellerChannel): string {
  const own = [peerId, best?.maxClaimableAmount, charged, seq, refund?.nonce, refund?.amount]
  return [...own, chainFacts(onChain)].join(' ')
}

/** What the chain says of a channel, to be compared. */
export function chainFacts({ balance, totalClaimed, withdrawal, refundNonce }: ChannelState): string {
  return [balance, totalClaimed, withdrawal?.amount, withdrawal?.initiatedAt, refundNonce].join(' ')
}
