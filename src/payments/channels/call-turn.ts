import type { ChannelPayment, SignedVoucher } from '../../schema/channel.ts'
import { checkVoucher } from '../voucher.ts'
import { ChannelRefused } from './channel-refused.ts'
import { reserveCall, type SellerChannel, type Shortage, shortageOf, takeCount, takeVoucher } from './seller-channel.ts'

/** What a call on a channel brings. */
export type AskedCall = {
  peerId: string
  payment: Pick<ChannelPayment, 'voucher' | 'counted'>
  /** What it may cost, in atomic units. */
  asked: bigint
}

/** A channel and the peer that may use it. */
type PeerChannel = { channel: SellerChannel; peerId: string }

type Judged<Call> = {
  state: PeerChannel
  /** The calls whose cost is reserved now. */
  taken: Call[]
  refused: { call: Call; error: ChannelRefused }[]
  /** A peer for each signature that was checked and was wrong. */
  blamed: string[]
}

/** Signatures that are checked for the calls of one peer in one turn. */
const TRIES_MAX = 2

/**
 * Takes the calls of one turn. Of the vouchers of one peer the highest is checked, and covers the other calls: their
 * signatures are never read. If it is wrong, the next one is tried.
 */
export function takeCalls<Call extends AskedCall>(
  { channel, peerId }: PeerChannel,
  calls: readonly Call[],
  chainId: number,
): Judged<Call> {
  const judged: Judged<Call> = { state: { channel, peerId }, taken: [], refused: [], blamed: [] }
  for (const [peer, ofPeer] of Map.groupBy(calls, (call) => call.peerId)) takeCallsOf(peer, ofPeer, { judged, chainId })
  return judged
}

function takeCallsOf<Call extends AskedCall>(
  peerId: string,
  calls: readonly Call[],
  { judged, chainId }: { judged: Judged<Call>; chainId: number },
): void {
  const { best, wrong, isGivenUp } = bestVoucher(judged.state.channel, calls, chainId)
  for (const _ of wrong) judged.blamed.push(peerId)
  if (best !== undefined) judged.state = { peerId, channel: takeVoucher(judged.state.channel, best) }
  for (const call of calls) {
    const reason = isGivenUp
      ? 'several vouchers of this peer have wrong signatures'
      : wrong.get(keyOf(call.payment.voucher))
    if (reason !== undefined) judged.refused.push({ call, error: new ChannelRefused('refused', reason) })
    else if (judged.state.peerId !== peerId) judged.refused.push({ call, error: ofAnother(judged.state.channel) })
    else takeCall(call, judged)
  }
}

type Best = {
  best: SignedVoucher | undefined
  /** Why the signature of a voucher is wrong, by the voucher. */
  wrong: ReadonlyMap<string, string>
  /** True if no more signatures are checked in this turn. */
  isGivenUp: boolean
}

/** The highest of the vouchers that are above the best one. Undefined: there is none with a good signature. */
function bestVoucher({ config, best: known }: SellerChannel, calls: readonly AskedCall[], chainId: number): Best {
  const wrong = new Map<string, string>()
  const higher = calls
    .map(({ payment }) => payment.voucher)
    .filter(({ maxClaimableAmount }) => maxClaimableAmount > (known?.maxClaimableAmount ?? 0n))
    .toSorted((a, b) => (a.maxClaimableAmount < b.maxClaimableAmount ? 1 : -1))
  for (const voucher of higher) {
    if (wrong.has(keyOf(voucher))) continue
    const verdict = checkVoucher(config, voucher, chainId)
    if (verdict.ok) return { best: verdict.voucher, wrong, isGivenUp: false }
    wrong.set(keyOf(voucher), verdict.reason)
    if (wrong.size >= TRIES_MAX) return { best: undefined, wrong, isGivenUp: true }
  }
  return { best: undefined, wrong, isGivenUp: false }
}

const keyOf = ({ channelId, maxClaimableAmount, signature }: SignedVoucher) =>
  `${channelId} ${maxClaimableAmount} ${signature}`

function takeCall<Call extends AskedCall>(call: Call, judged: Judged<Call>): void {
  const channel = takeCount(judged.state.channel, call.payment.counted)
  const shortage = shortageOf(channel, call.asked)
  judged.state = { ...judged.state, channel: shortage === undefined ? reserveCall(channel, call.asked) : channel }
  if (shortage === undefined) judged.taken.push(call)
  else judged.refused.push({ call, error: shortageError(shortage, channel) })
}

/**
 * The rule of a turn for a channel that another process may have: its peer may use it, and so may a peer with a voucher above
 * the best one. A lower voucher proves nothing, because claimed vouchers are public on the chain.
 *
 * @throws ChannelRefused
 */
export function usedBy<Stored extends Pick<SellerChannel, 'best' | 'charged' | 'seq'> & { peerId: string }>(
  { peerId, payment }: { peerId: string; payment: { voucher: SignedVoucher } },
  stored: Stored,
): Stored {
  const isHigher = payment.voucher.maxClaimableAmount > (stored.best?.maxClaimableAmount ?? 0n)
  if (peerId !== stored.peerId && !isHigher) throw ofAnother(stored)
  return stored
}

const shortages = {
  voucher: 'the ceiling of the voucher is too low for this call and those that run: sign a higher one',
  balance: 'the deposits of this channel are used up, or this seller does not see them on the chain yet',
  withdrawal: 'the payer takes the escrow of this channel out: this call would not be paid',
} as const satisfies Record<Shortage, string>

function shortageError(shortage: Shortage, { charged, seq, best }: SellerChannel): ChannelRefused {
  const counted = { total: charged, seq }
  return new ChannelRefused(shortage, shortages[shortage], { counted, ...(best !== undefined && { voucher: best }) })
}

/** Does not show the best voucher: the peer may not be the payer. */
function ofAnother({ charged, seq }: Pick<SellerChannel, 'charged' | 'seq'>): ChannelRefused {
  const reason = 'another peer uses this channel: a voucher above its highest one takes the channel over'
  return new ChannelRefused('voucher', reason, { counted: { total: charged, seq } })
}
