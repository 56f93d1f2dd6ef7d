import type { ChannelState } from '../../chain/batch-settlement.ts'
import { largest, smallest } from '../../lib/bigints.ts'
import type { ChannelConfig, SignedVoucher } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'

/*
 * What a seller may do with one channel, as pure functions: no clock, no chain, no disk (ADR-32). Amounts are atomic
 * units.
 *
 *   totalClaimed ≤ charged ≤ charged + asked ≤ min(best voucher, balance − pending withdrawal)
 *
 * The last inequality holds when a call begins. A withdrawal that begins while calls run can break it, by what they ask.
 */

/** The highest number that a buyer can state. Those that follow must be numbers that the ledger can hold. */
const SEQ_MAX = 2 ** 48

/**
 * What a seller knows of one channel. `best`, `charged` and `seq` are on disk before a buyer hears of the charge.
 */
export type SellerChannel = {
  readonly id: Hex
  readonly config: ChannelConfig
  /** The channel on the chain, at the depth at which this seller believes a deposit. */
  readonly onChain: ChannelState
  /** The voucher with the highest ceiling. Its signature has been checked. */
  readonly best: SignedVoucher | undefined
  /** The sum of all charges. */
  readonly charged: bigint
  /** The number of charges. Both sides find a lost one by it. */
  readonly seq: number
  /** The sum of what the running calls may cost. A process that ends has no running calls. */
  readonly asked: bigint
  /** The last refund that this seller has signed. Anyone may send it until its nonce is used, so it is on disk before. */
  readonly refund?: ChannelRefund | undefined
}

/** What the receiver's authorizer signs to give escrow back. The contract takes each nonce once. */
export type ChannelRefund = { nonce: bigint; amount: bigint }

/** What a call has cost. `total` and `seq` count it in. @internal Exported for its test. */
export type Charge = { amount: bigint; total: bigint; seq: number }

/**
 * Why a call cannot begin:
 * - `voucher`: the ceiling is too low. The buyer signs a higher one, from the total that the seller states.
 * - `withdrawal`: the payer takes out what the call would cost.
 * - `balance`: the deposits are used up.
 */
export type Shortage = 'voucher' | 'withdrawal' | 'balance'

/** A channel at a seller that has no record of it. All that is claimed on the chain was charged. */
export function openAtSeller(id: Hex, config: ChannelConfig, onChain: ChannelState): SellerChannel {
  return { id, config, onChain, best: undefined, charged: onChain.totalClaimed, seq: 0, asked: 0n }
}

/** Takes a voucher whose signature has been checked. A lower one than the best says nothing new. */
export function takeVoucher(channel: SellerChannel, voucher: SignedVoucher): SellerChannel {
  if (voucher.maxClaimableAmount <= ceilingOf(channel)) return channel
  return { ...channel, best: voucher }
}

/**
 * Takes in what the buyer has counted. It is more than this seller knows only where the seller has lost records, and an
 * honest buyer heals that. It never lowers a sum, and a voucher must cover it.
 */
export function takeCount(channel: SellerChannel, { total, seq }: Pick<Charge, 'total' | 'seq'>): SellerChannel {
  // An equal sum is news too: the chain shows what was claimed, and not how many charges that were.
  if (total < channel.charged || total > ceilingOf(channel) || seq <= channel.seq || seq > SEQ_MAX) return channel
  return { ...channel, charged: total, seq }
}

/** What calls may cost in all: the escrow that nobody but this seller can take. */
export function spendableOf(channel: Pick<SellerChannel, 'onChain' | 'refund'>): bigint {
  const { balance, totalClaimed, withdrawal } = channel.onChain
  if (isRefundForgotten(channel)) return totalClaimed
  // After its delay the payer can end a withdrawal at any moment, so what it names has left already. So has what a
  // signed refund names: anyone can send it.
  return largest(balance - (withdrawal?.amount ?? 0n) - (openRefund(channel)?.amount ?? 0n), 0n)
}

/** The signed refund that the chain does not show yet. */
export function openRefund({ onChain, refund }: Pick<SellerChannel, 'onChain' | 'refund'>): ChannelRefund | undefined {
  return refund !== undefined && refund.nonce >= onChain.refundNonce ? refund : undefined
}

/**
 * True if a reorganization has also taken back a refund before the last one. Anyone can send it again, and its amount was not
 * kept.
 */
function isRefundForgotten({ onChain, refund }: Pick<SellerChannel, 'onChain' | 'refund'>): boolean {
  return refund !== undefined && refund.nonce > onChain.refundNonce
}

export type RefundAsk = {
  /** Undefined: all that is free. */
  wanted?: bigint | undefined
  /** Less is not worth its transaction. */
  amountMin: bigint
}

/**
 * Gives back what is free, or `wanted` if that is less. While a refund is open it is the same refund again: two amounts
 * for one nonce would leave it to others which of them happens. Undefined: too little is free, or a reorganization took back
 * an earlier refund.
 */
export function signRefund(
  channel: SellerChannel,
  { wanted, amountMin }: RefundAsk,
): { channel: SellerChannel; refund: ChannelRefund } | undefined {
  if (isRefundForgotten(channel)) return undefined
  const open = openRefund(channel)
  if (open !== undefined) return { channel, refund: open }
  const free = refundableOf(channel)
  const amount = wanted === undefined ? free : smallest(wanted, free)
  if (amount <= 0n || amount < amountMin) return undefined
  const refund = { nonce: channel.onChain.refundNonce, amount }
  return { channel: { ...channel, refund }, refund }
}

/** Tells why a call that may cost `asked` cannot begin. Undefined: it can. */
export function shortageOf(channel: SellerChannel, asked: bigint): Shortage | undefined {
  const needed = channel.charged + channel.asked + asked
  if (needed > channel.onChain.balance) return 'balance'
  if (needed > spendableOf(channel)) return 'withdrawal'
  return needed > ceilingOf(channel) ? 'voucher' : undefined
}

/** Keeps `asked` free for a call, or for more of a call that runs. Only where nothing is short. */
export function reserveCall(channel: SellerChannel, asked: bigint): SellerChannel {
  const shortage = shortageOf(channel, asked)
  if (shortage !== undefined) throw new Error(`a call was begun on a channel that is short: ${shortage}`)
  return { ...channel, asked: channel.asked + asked }
}

/** Ends a call without a charge. It failed, or the buyer has left. */
export function releaseCall(channel: SellerChannel, asked: bigint): SellerChannel {
  return { ...channel, asked: channel.asked - asked }
}

/** The voucher of a call, whose signature has been checked, and the best one before it. */
export type TakenVoucher = { voucher: SignedVoucher; before: SignedVoucher | undefined }

/**
 * Forgets the voucher of a call that cost nothing, if no other call needs it. A claim shows the best voucher to everybody, and one
 * that covers more than was charged is money to whoever has it: it buys a run (ADR-43).
 */
export function forgetVoucher(channel: SellerChannel, { voucher, before }: TakenVoucher): SellerChannel {
  // A channel without a voucher would pass for one whose records are lost.
  if (before === undefined) return channel
  return isEnough(channel, before) && ceilingOf(channel) === voucher.maxClaimableAmount
    ? { ...channel, best: before }
    : channel
}

/**
 * Keeps the voucher of the first call that was charged in place of a higher one, which a call before it has brought that cost
 * nothing. No claim has shown that one yet.
 */
export function keepFirst(channel: SellerChannel, { voucher }: TakenVoucher, { amount, total }: Charge): SellerChannel {
  const isFirst = amount === total && channel.onChain.totalClaimed === 0n
  return isFirst && isEnough(channel, voucher) && voucher.maxClaimableAmount < ceilingOf(channel)
    ? { ...channel, best: voucher }
    : channel
}

/** True if a voucher covers all that was charged, and no call is under way that needs more. */
function isEnough({ asked, charged }: SellerChannel, { maxClaimableAmount }: SignedVoucher): boolean {
  return asked === 0n && charged <= maxClaimableAmount
}

/** Ends a call with its charge, at most what was asked. */
export function chargeCall(
  channel: SellerChannel,
  { asked, amount }: { asked: bigint; amount: bigint },
): { channel: SellerChannel; charge: Charge } {
  if (amount < 0n || amount > asked) throw new Error(`a call that may cost ${asked} cannot be charged ${amount}`)
  const total = channel.charged + amount
  const seq = channel.seq + 1
  return { channel: { ...channel, charged: total, seq, asked: channel.asked - asked }, charge: { amount, total, seq } }
}

/**
 * Takes in a reading of the chain. A seller that has lost records learns there what it has charged at least. A claim
 * that a reorganization has taken back stays charged, and is claimed again.
 */
export function seenOnChain(channel: SellerChannel, onChain: ChannelState): SellerChannel {
  return { ...channel, onChain, charged: largest(channel.charged, onChain.totalClaimed) }
}

/**
 * What to claim: the new total on the chain, and the voucher that covers it. Undefined: nothing more can be claimed.
 * After a withdrawal less may be left than was charged. Then it is what is left.
 */
export function claimOf(channel: SellerChannel): { totalClaimed: bigint; voucher: SignedVoucher } | undefined {
  const { best, charged, onChain } = channel
  const totalClaimed = smallest(charged, ceilingOf(channel), onChain.balance)
  return best === undefined || totalClaimed <= onChain.totalClaimed ? undefined : { totalClaimed, voucher: best }
}

/** What was charged and is not claimed yet: the payer could still take it out by a withdrawal. */
export function unclaimedOf({ charged, onChain }: SellerChannel): bigint {
  return largest(charged - onChain.totalClaimed, 0n)
}

/** What the seller can give back now: no call and no charge needs it. @internal Exported for its test. */
export function refundableOf({ charged, asked, onChain }: SellerChannel): bigint {
  return largest(onChain.balance - largest(charged, onChain.totalClaimed) - asked, 0n)
}

function ceilingOf({ best }: Pick<SellerChannel, 'best'>): bigint {
  return best?.maxClaimableAmount ?? 0n
}
