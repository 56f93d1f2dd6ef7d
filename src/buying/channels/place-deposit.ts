import type { ChannelReader, ChannelState } from '../../chain/batch-settlement.ts'
import type { Trading } from '../../ledger/trading.ts'
import { largest, smallest } from '../../lib/bigints.ts'
import type { Clock } from '../../lib/clock.ts'
import { CodedError } from '../../lib/errors.ts'
import { channelId } from '../../payments/channel-digests.ts'
import { openAtBuyer } from '../../payments/channels/buyer-channel.ts'
import { heldIn } from '../../payments/channels/moved.ts'
import { troubleForBuyer } from '../../payments/channels/terms.ts'
import type { Wallet } from '../../payments/wallet.ts'
import { parsePrice, usdc } from '../../schema/amount.ts'
import type { BuyerChannels, DepositUnderWay, StoredChannel } from '../../store/buyer-channels.ts'
import type { WalletFunds } from '../wallet-checks.ts'
import type { ChannelLine } from './channel-line.ts'
import {
  depositLimits,
  type Limited,
  type LockRules,
  limitTrouble,
  lockedBy,
  roomIn,
  type TokenLimit,
} from './deposit-limits.ts'
import { lockedIn, signedDeposit } from './deposits.ts'
import { type ChannelOptions, fillUp, newConfig, noRpc, type Offer, usualDeposit } from './offer.ts'

/** The longest delay of a withdrawal that this node accepts. */
const WITHDRAW_DELAY_SECONDS_MAX = 86_400
/** The most that is locked at a stranger, unless the usual number of its calls costs more. */
const STRANGER_DEPOSIT_MAX = parsePrice('0.1')

/** Who asks for a deposit: the rules of this node, the wish of a call, or the operator. */
export type AskedDeposit = {
  by: 'rule' | 'wish' | 'hand'
  /** `stranger`: this node knows nothing of this seller but its listing. */
  reason: 'stranger' | 'known'
  /** What the operator names. Undefined: by the price of a call. */
  amount?: bigint | undefined
  /** What the channel has paid within a minute. Calls that are that fast get a larger deposit. */
  paidLately?: bigint
  /** Undefined: no call asks. */
  payer?: CallPayer | undefined
}

/** Who pays the call that a channel is opened for. */
export type CallPayer = {
  /** Undefined: the operator. */
  tokenId: string | undefined
  /** Why this node would not pay the call. */
  refusal(): Promise<Error | undefined>
  /** What the token of the call may still spend. Undefined: no token limits it. */
  left(): Promise<bigint | undefined>
}

type PlaceDeps = {
  clock: Clock
  store: Pick<BuyerChannels, 'putDeposit' | 'list'>
  wallet: Wallet
  onChain: { reader: Pick<ChannelReader, 'channels'> } | undefined
  funds?: WalletFunds | undefined
  trading?: Pick<Trading, 'check'> | undefined
  budget?: { rules(): LockRules } | undefined
}

/**
 * Signs a deposit and stores it, so that it may be sent. `line`: the channel that it fills up. Undefined: a new one.
 *
 * @throws CodedError, MarketError, ChainError, StoreError: nothing was signed, or what was signed is not sent
 */
export async function placeDeposit(
  offer: Offer,
  asked: AskedDeposit & { line: ChannelLine | undefined },
  { depositMax }: Pick<ChannelOptions, 'depositMax'>,
  deps: PlaceDeps,
): Promise<{ stored: StoredChannel; deposit: DepositUnderWay }> {
  const { line, by, payer } = asked
  const { store, wallet, clock, onChain: chain, trading } = deps
  if (chain === undefined) throw noRpc()
  const { network, chainId } = wallet.asset
  const refusal = await payer?.refusal()
  if (refusal !== undefined) throw refusal
  const limits = { depositMax, token: await tokenOf(payer), ...(by !== 'hand' && { rules: deps.budget?.rules() }) }
  const amounts = amountsFor(offer, asked, { ...limits, network }, await store.list())
  trading?.check()
  const amount = await affordable(amounts, by, deps)
  const payerAuthorizer = wallet.channelSigner('vouchers').address
  const config = line?.channel.config ?? newConfig(offer, wallet.address, payerAuthorizer)
  const id = channelId(config, chainId)
  const onChain = (await chain.reader.channels([id]))[0]!
  if (line === undefined) checkUnused(onChain)
  const now = clock.now()
  const { mark, charged, seq, statedSeq, early, stopped } = line?.channel ?? openAtBuyer(id, config, onChain)
  const moved = line?.moved ?? { in: onChain.balance, out: 0n }
  // An RPC that lags shows too little: what lay there before would pass for this deposit.
  const deposit = signedDeposit({ id, amount, balanceBefore: heldIn({ onChain, moved }), now }, wallet)
  // A seller takes a deposit with a voucher. The smallest voucher is enough, and is all that this node risks.
  const sums = { mark: largest(mark, 1n), charged, seq, statedSeq, early, stopped }
  const { agentId, seller } = offer
  const parties = { id, config, sellerId: seller.peerId, agentId, network }
  const tokenIds = payer?.tokenId === undefined ? [] : [payer.tokenId]
  const stored = { ...parties, ...sums, onChain, moved, deposit, tokenIds, createdAt: now, usedAt: now }
  let trouble: string | undefined
  await store.putDeposit(stored, (all) => {
    trouble = depositTrouble(stored, { amount, byHand: by === 'hand', ...limits }, all)
    return trouble === undefined
  })
  if (trouble !== undefined) throw new CodedError('INVALID_REQUEST', `${trouble}: no deposit was made`)
  return { stored, deposit }
}

/**
 * Nobody else knows the salt of a new channel, so nobody has used it. Vouchers begin at what was claimed: an RPC that makes up
 * claims would have the first one cover the whole deposit. @throws CodedError CHAIN_UNAVAILABLE
 */
function checkUnused({ balance, totalClaimed, withdrawal, refundNonce }: ChannelState): void {
  if (balance === 0n && totalClaimed === 0n && withdrawal === undefined && refundNonce === 0n) return
  const why = 'the RPC shows a channel as used that is not open yet: check it with stoa doctor, or use another RPC'
  throw new CodedError('CHAIN_UNAVAILABLE', `${why}. Nothing was signed`)
}

async function tokenOf(payer: CallPayer | undefined): Promise<TokenLimit | undefined> {
  const { tokenId: id } = payer ?? {}
  const most = id === undefined ? undefined : await payer?.left()
  return id === undefined || most === undefined ? undefined : { id, most }
}

/**
 * What to deposit, the best first. Calls that use up a channel within a minute get what that minute cost, as far as all
 * limits allow it. Then fewer deposits do, and each lands in time.
 *
 * @throws CodedError INVALID_REQUEST if the seller wants what this node does not give
 */
function amountsFor(
  offer: Offer,
  { by, reason, amount: wanted, paidLately = 0n }: AskedDeposit,
  { network, ...limits }: Limited & { network: string },
  all: readonly StoredChannel[],
): bigint[] {
  const { depositMax, token } = limits
  const { min_deposit: least } = offer.channel
  const left = token && largest(token.most - lockedBy(token, all, network), 0n)
  if (left !== undefined && left < least) {
    throw refused(`the seller wants a deposit of ${usdc(least)}, and the token of this call may lock ${usdc(left)}`)
  }
  const isStranger = reason === 'stranger'
  const usual = amountFor(offer, { depositMax: smallest(depositMax, left ?? depositMax), wanted, isStranger })
  if (by === 'hand' || isStranger) return [usual]
  const sellerId = offer.seller.peerId
  const here = lockedIn(
    all.filter((other) => other.sellerId === sellerId),
    network,
  )
  const fitting = fillUp(offer, usual, depositMax - here)
  const fast = smallest(paidLately, roomIn(depositLimits({ sellerId, network }, limits, all)))
  return fast > fitting ? [fast, fitting] : [fitting]
}

/**
 * What fills a channel up. @param isStranger it has done nothing for this node yet
 *
 * @throws CodedError INVALID_REQUEST if the seller wants what this node does not give
 */
function amountFor(
  offer: Offer,
  { depositMax, wanted, isStranger }: { depositMax: bigint; wanted: bigint | undefined; isStranger: boolean },
): bigint {
  const { withdraw_delay: withdrawDelay, min_deposit: minDeposit } = offer.channel
  const most = { withdrawDelaySecondsMax: WITHDRAW_DELAY_SECONDS_MAX, depositMax }
  const trouble = troubleForBuyer({ withdrawDelay, minDeposit }, most)
  if (trouble !== undefined) throw refused(trouble)
  if (wanted === undefined) {
    const usual = usualDeposit(offer, depositMax)
    // Otherwise one cheap call would let a stranger lock the most that this node deposits.
    if (isStranger && usual > largest(STRANGER_DEPOSIT_MAX, usualDeposit(free(offer), depositMax))) {
      const wish = 'a call with --channel (channel: always) makes it'
      throw refused(`the seller wants a deposit of ${usdc(minDeposit)}, which is much for its price; ${wish}`)
    }
    return usual
  }
  if (wanted < minDeposit) throw refused(`the seller takes deposits of ${usdc(minDeposit)} or more`)
  if (wanted > depositMax) throw refused(`buyer.channel_deposit_max of this node is ${usdc(depositMax)}`)
  return wanted
}

/** The offer of a seller that takes any deposit. */
function free(offer: Offer): Offer {
  return { ...offer, channel: { ...offer.channel, min_deposit: 0n } }
}

function refused(why: string): CodedError<'INVALID_REQUEST'> {
  return new CodedError('INVALID_REQUEST', `${why}: nothing was signed`)
}

/** The first of these amounts that the wallet has. @throws MarketError */
async function affordable(amounts: readonly bigint[], by: AskedDeposit['by'], deps: PlaceDeps): Promise<bigint> {
  const [amount = 0n, ...less] = amounts
  try {
    await checkFunds(amount, by, deps)
    return amount
  } catch (error) {
    if (less.length === 0) throw error
    return affordable(less, by, deps)
  }
}

/** A deposit that nobody asks for leaves as much again for payments that are signed and not settled. @throws MarketError */
async function checkFunds(amount: bigint, by: AskedDeposit['by'], { funds }: PlaceDeps): Promise<void> {
  const [needed, what] =
    by === 'rule'
      ? [amount * 2n, 'a deposit that this node makes by itself takes at most half of the wallet, so it needs']
      : [amount, 'the deposit is']
  // It has limits of its own, and passes when they are over.
  await funds?.check(needed, new AbortController().signal, what)
}

function isUsed({ stopped, leaving, deposit, onChain }: StoredChannel): boolean {
  const hasMoney = deposit !== undefined || onChain.balance > onChain.totalClaimed
  return stopped === undefined && leaving === undefined && hasMoney
}

type JudgedDeposit = { amount: bigint; byHand: boolean } & Limited

/** Why a deposit must not be made, by all channels of the wallet, whatever process has them. Undefined: it may. */
function depositTrouble(
  channel: StoredChannel,
  { amount, byHand, ...limited }: JudgedDeposit,
  all: readonly StoredChannel[],
): string | undefined {
  const same = all.find((other) => other.id === channel.id)
  if (same?.deposit !== undefined) return 'a deposit into this channel is under way'
  if (same?.leaving !== undefined) return 'this node takes its money out of this channel'
  const atSeller = all.filter((other) => other.sellerId === channel.sellerId)
  const open = atSeller.find((other) => other.network === channel.network && isUsed(other))
  if (byHand && open !== undefined) return `channel ${open.id} to this seller is open, and is filled up by itself`
  // The operator may trust the seller again.
  if (!byHand && atSeller.some((other) => other.stopped !== undefined)) return 'a channel to this seller has stopped'
  return limitTrouble(amount, depositLimits(channel, limited, all))
}
