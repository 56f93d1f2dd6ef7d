import type { ChannelState } from '../../chain/batch-settlement.ts'
import { largest, smallest } from '../../lib/bigints.ts'
import type { ChannelConfig, Charge, SignedVoucher } from '../../schema/channel.ts'
import type { Pricing } from '../../schema/pricing.ts'
import type { Hex } from '../../schema/primitives.ts'
import { falseCharge } from '../pricing.ts'
import { CallAmounts } from './call-amounts.ts'
import { spendableOf } from './seller-channel.ts'

/*
 * What a buyer may do with one channel, as pure functions: no clock, no chain, no disk. Amounts are atomic units.
 *
 *   charged ≤ charged + in flight ≤ signed ≤ mark ≤ balance
 *
 * `signed − charged` is what the seller could take without having delivered it.
 */

/**
 * Charges that may wait for an earlier one. A seller that leaves a number out makes all later charges wait, and each new
 * charge rewrites them. With an honest seller the buyer asks for the lost answer long before this many come.
 *
 * @internal Exported for its test.
 */
export const EARLY_MAX = 512

/** What a buyer knows of one channel. */
export type BuyerChannel = {
  readonly id: Hex
  readonly config: ChannelConfig
  /** The channel on the chain, as last read. */
  readonly onChain: ChannelState
  /** On disk: nothing above it was ever signed. */
  readonly mark: bigint
  /** The highest ceiling that the seller may hold. After a restart nobody knows better than the mark. */
  readonly signed: bigint
  /** The voucher of the last calls, for the next ones that it covers. A restart loses it. */
  readonly voucher: SignedVoucher | undefined
  /** The sum of the charges up to `seq`. On disk, as is `seq`. */
  readonly charged: bigint
  readonly seq: number
  /** Charges up to this number are in `charged`, for any call: the seller has stated their sum. On disk. */
  readonly statedSeq: number
  /** What each call in flight may cost, by its id. On disk with the order of the call. */
  readonly inFlight: CallAmounts
  /** Charges that came before an earlier one, by their number. On disk with their orders. */
  readonly early: ReadonlyMap<number, EarlyCharge>
  /** Why the buyer signs nothing more on this channel. Undefined: it signs. */
  readonly stopped: string | undefined
}

type EarlyCharge = Charge & { call: string }

/** What a restart finds on disk. @internal Exported for its test. */
export type StoredBuyerChannel = Omit<BuyerChannel, 'signed' | 'voucher' | 'inFlight'> & {
  inFlight: Iterable<readonly [call: string, asked: bigint]>
}

/** A channel that this buyer has never used. Earlier claims in it count as charged. */
export function openAtBuyer(id: Hex, config: ChannelConfig, onChain: ChannelState): BuyerChannel {
  const { totalClaimed } = onChain
  const sums = { mark: totalClaimed, charged: totalClaimed, seq: 0, statedSeq: 0 }
  return reopenAtBuyer({
    id,
    config,
    onChain,
    ...sums,
    inFlight: CallAmounts.none,
    early: new Map(),
    stopped: undefined,
  })
}

/** A channel after a restart. */
export function reopenAtBuyer(stored: StoredBuyerChannel): BuyerChannel {
  return { ...stored, inFlight: CallAmounts.of(stored.inFlight), signed: stored.mark, voucher: undefined }
}

type Plan =
  /** The last voucher covers the calls. */
  | { ok: true; voucher: SignedVoucher }
  /** A voucher with this ceiling must be signed. `mark` must be on disk before, if it is there. */
  | { ok: true; ceiling: bigint; mark: bigint | undefined }
  | { ok: false; reason: 'stopped' | 'early' | 'balance' }

/**
 * Plans the voucher for calls that are sent together. It covers what was charged, what is in flight, and these calls. A
 * new voucher covers `ahead` more, so that the next calls need no signature and no write to disk.
 */
export function planCalls(channel: BuyerChannel, asked: readonly bigint[], ahead: bigint): Plan {
  const { stopped, voucher, mark } = channel
  if (stopped !== undefined) return { ok: false, reason: 'stopped' }
  if (asked.length > 0 && channel.early.size >= EARLY_MAX) return { ok: false, reason: 'early' }
  const needed = owedAtMost(channel) + sum(asked)
  const spendable = spendableOf(channel)
  if (needed > spendable) return { ok: false, reason: 'balance' }
  if (voucher !== undefined && needed <= voucher.maxClaimableAmount) return { ok: true, voucher }
  const ceiling = smallest(needed + ahead, spendable)
  return { ok: true, ceiling, mark: ceiling > mark ? ceiling : undefined }
}

/** Raises what may be signed. The caller has it on disk before it signs. */
export function raiseMark(channel: BuyerChannel, mark: bigint): BuyerChannel {
  return mark > channel.mark ? { ...channel, mark } : channel
}

/** Counts calls as in flight under their voucher. Their orders are on disk, and so is the mark. */
export function sendCalls(
  channel: BuyerChannel,
  calls: Iterable<{ id: string; asked: bigint }>,
  voucher: SignedVoucher,
): BuyerChannel {
  const ceiling = voucher.maxClaimableAmount
  if (ceiling > channel.mark) throw new Error(`a ceiling of ${ceiling} was signed above the mark of ${channel.mark}`)
  let { inFlight } = channel
  for (const { id, asked } of calls) inFlight = inFlight.with(id, (inFlight.get(id) ?? 0n) + asked)
  return { ...channel, inFlight, signed: largest(ceiling, channel.signed), voucher }
}

/** Raises what a call in flight may cost. Does nothing for a call that has ended, also if its charge waits. */
export function growCall(channel: BuyerChannel, call: string, asked: bigint): BuyerChannel {
  const before = channel.inFlight.get(call)
  if (before === undefined || before >= asked) return channel
  for (const early of channel.early.values()) if (early.call === call) return channel
  return { ...channel, inFlight: channel.inFlight.with(call, asked) }
}

/** Ends a call that the seller has refused or failed: nothing was charged for it. */
export function dropCall(channel: BuyerChannel, call: string): BuyerChannel {
  const inFlight = channel.inFlight.without(call)
  return inFlight === channel.inFlight ? channel : { ...channel, inFlight }
}

/**
 * Counts what a call has cost, once for each call. `asked` is what it may cost by its order, also if that was given up.
 * Charges are counted in the order of their numbers, so one that comes early waits for the answers that were lost or are
 * late. A charge that cannot be true stops the channel: the buyer keeps the result, and signs no more.
 *
 * @internal Exported for its test.
 */
export function countCharge(
  channel: BuyerChannel,
  { call, asked, charge, pricing }: { call: string; asked: bigint; charge: Charge; pricing?: Pricing | undefined },
): BuyerChannel {
  const { amount, seq } = charge
  if (seq <= channel.statedSeq) return dropCall(channel, call)
  // The call has ended with its result, so a withdrawal need not wait for it.
  const stopEnded = (why: string) => stop(dropCall(channel, call), why)
  if (amount < 0n || amount > asked) return stopEnded(`the seller charged ${amount} for a call of at most ${asked}`)
  const falsehood = pricing && falseCharge(pricing, charge)
  if (falsehood !== undefined) return stopEnded(falsehood)
  if (seq <= channel.seq || channel.early.has(seq)) return stopEnded(`the seller gave the number ${seq} to two charges`)
  const next = { amount, total: charge.total, seq, call }
  if (seq === channel.seq + 1) return countNext(channel, next)
  return waiting(channel, next)
}

/** Keeps a charge that waits. Its call has ended: it is owed what it was charged, and not what it could have cost. */
function waiting(channel: BuyerChannel, charge: EarlyCharge): BuyerChannel {
  const { call, amount, seq } = charge
  const early = new Map(channel.early).set(seq, charge)
  const inFlight = channel.inFlight.has(call) ? channel.inFlight.with(call, amount) : channel.inFlight
  return { ...channel, inFlight, early }
}

/** Why a channel stops whose seller sends a result without a charge. */
const NO_CHARGE = 'the seller sent a result and stated no charge'

/** Counts a charge as its seller states it. A result without a charge stops the channel. */
export function countStated(
  channel: BuyerChannel,
  counted: { call: string; asked: bigint; charge: Charge | undefined; pricing?: Pricing | undefined },
): BuyerChannel {
  const { call, charge } = counted
  if (charge === undefined) return stop(dropCall(channel, call), NO_CHARGE)
  return countCharge(channel, { ...counted, charge })
}

/** The sums of a channel, as they are on disk. */
type Sums = Pick<BuyerChannel, 'charged' | 'seq' | 'statedSeq' | 'early' | 'stopped'>

/** Counts a charge into the sums alone. */
export function countIntoSums(sums: Sums, counted: Parameters<typeof countStated>[1]): Sums {
  const { charged, seq, statedSeq, early, stopped } = countStated({ ...NOTHING, ...sums }, counted)
  return { charged, seq, statedSeq, early, stopped }
}

/** The part of a channel that no charge changes. */
const NOTHING: Omit<BuyerChannel, keyof Sums> = {
  id: '0x',
  config: {} as ChannelConfig,
  onChain: { balance: 0n, totalClaimed: 0n, withdrawal: undefined, refundNonce: 0n },
  ...{ mark: 0n, signed: 0n, voucher: undefined, inFlight: CallAmounts.none },
}

/** Counts the charge with the next number, then those that wait for it, as far as none is missing. */
function countNext(channel: BuyerChannel, first: EarlyCharge): BuyerChannel {
  let { charged, seq, inFlight, early } = channel
  for (let next: EarlyCharge | undefined = first; next !== undefined; next = early.get(seq + 1)) {
    if (next.total !== charged + next.amount) {
      const why = `the seller states a sum of ${next.total} where its charges make ${charged + next.amount}`
      return stop(waiting({ ...channel, charged, seq, inFlight, early }, next), why)
    }
    charged += next.amount
    seq = next.seq
    inFlight = inFlight.without(next.call)
    if (early.has(seq)) early = without(early, seq)
  }
  return { ...channel, charged, seq, inFlight, early }
}

function without<K, V>(map: ReadonlyMap<K, V>, key: K): ReadonlyMap<K, V> {
  const rest = new Map(map)
  rest.delete(key)
  return rest
}

/** What a seller states of its own records where a ceiling is too low. */
export type Statement = {
  charged: bigint
  seq: number
  /** The buyer's own voucher. Its signature has been checked. */
  voucher: SignedVoucher
}

/**
 * Takes over the seller's sum where this buyer has lost records. Only a voucher of its own above its mark proves the loss.
 * A buyer that has all its records believes only them: else a seller could raise the sum to each ceiling.
 *
 * @param mark the mark when the statement came. It may have risen since
 * @returns undefined if the statement proves nothing
 */
export function adoptStatement(
  channel: BuyerChannel,
  { charged, seq, voucher }: Statement,
  mark = channel.mark,
): BuyerChannel | undefined {
  const stated = voucher.maxClaimableAmount
  if (stated <= mark || charged > stated || charged < channel.onChain.totalClaimed) return undefined
  if (charged <= channel.charged || seq <= channel.seq) return undefined
  const early = new Map(channel.early)
  let { inFlight } = channel
  for (const [number, { call }] of channel.early) {
    if (number > seq) continue
    early.delete(number)
    inFlight = inFlight.without(call)
  }
  const signed = largest(stated, channel.signed)
  const above = { signed, mark: largest(stated, channel.mark) }
  const adopted = { ...channel, ...above, charged, seq, statedSeq: seq, early, inFlight }
  const next = early.get(seq + 1)
  return next === undefined ? adopted : countNext(adopted, next)
}

/**
 * Takes in a reading of the chain. A seller can claim up to the highest voucher. A claim of more than its calls can have
 * cost stops the channel.
 */
export function seenByBuyer(channel: BuyerChannel, onChain: ChannelState): BuyerChannel {
  const { totalClaimed } = onChain
  const owed = owedAtMost(channel)
  const next = { ...channel, onChain }
  return totalClaimed > owed
    ? stop(next, `the seller has claimed ${totalClaimed}, and its calls cost ${owed} at most`)
    : next
}

/** The most that the seller may claim: the charges, and the calls in flight at their highest cost. */
export function owedAtMost({ charged, inFlight }: Pick<BuyerChannel, 'charged' | 'inFlight'>): bigint {
  return charged + inFlight.sum
}

/** What the seller could take without having delivered it. @internal Exported for its test. */
export function atRisk({ signed, charged }: Pick<BuyerChannel, 'signed' | 'charged'>): bigint {
  return largest(signed - charged, 0n)
}

function stop(channel: BuyerChannel, why: string): BuyerChannel {
  return { ...channel, stopped: channel.stopped ?? why }
}

function sum(amounts: Iterable<bigint>): bigint {
  let total = 0n
  for (const amount of amounts) total += amount
  return total
}
