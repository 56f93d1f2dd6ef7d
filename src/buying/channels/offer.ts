import { randomBytes } from 'node:crypto'
import { largest, smallest } from '../../lib/bigints.ts'
import { CodedError } from '../../lib/errors.ts'
import { sameAddress } from '../../payments/assets.ts'
import { troubleForBuyer } from '../../payments/channels/terms.ts'
import { parsePrice, usdc } from '../../schema/amount.ts'
import type { ChannelConfig } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { StoredChannel } from '../../store/buyer-channels.ts'
import { channelPrice, type Terms } from '../guard.ts'
import type { ChannelLine } from './channel-line.ts'
import { lockedIn } from './deposits.ts'

/** The first deposit, and each one that fills a channel up, pay so many calls. */
const DEPOSIT_CALLS = 20n
/** The most that lies in channels to all sellers. */
const DEPOSITS_MAX = parsePrice('5')
/** The longest delay of a withdrawal that this node accepts. */
const WITHDRAW_DELAY_SECONDS_MAX = 86_400

/** What a node does with payment channels. Amounts are atomic units. */
export type ChannelOptions = {
  /**
   * `off`: opens none, and pays no new calls by those that are open. `auto`: opens one for cheap and frequent calls.
   * `always`: opens one at the first call of each seller that offers them.
   */
  mode: 'off' | 'auto' | 'always'
  /** Calls that a voucher may cover ahead, at a seller with a good record. */
  aheadCalls: number
  /** The most that is deposited at one seller. */
  depositMax: bigint
  /** A channel that nobody has used for this long is left. */
  idleMs: number
}

/** Whom a channel pays, and by whose leave. */
export type Offer = Terms & { channel: NonNullable<Terms['channel']> }

/** True if a channel pays this seller, by the key that the seller names. */
export function fits(
  { channel: { config }, sellerId }: ChannelLine,
  { seller, listed, channel: offer }: Offer,
): boolean {
  return (
    sellerId === seller.peerId &&
    sameAddress(config.receiver, listed.payTo) &&
    sameAddress(config.token, listed.asset) &&
    sameAddress(config.receiverAuthorizer, offer.receiver_authorizer)
  )
}

/**
 * What to deposit. @param wanted what the operator names. Undefined: by the price of a call
 *
 * @throws CodedError INVALID_REQUEST if the seller wants what this node does not give
 */
export function amountFor(offer: Offer, depositMax: bigint, wanted?: bigint): bigint {
  const { channel: terms } = offer
  const offered = { withdrawDelay: terms.withdraw_delay, minDeposit: terms.min_deposit }
  const trouble = troubleForBuyer(offered, { withdrawDelaySecondsMax: WITHDRAW_DELAY_SECONDS_MAX, depositMax })
  if (trouble !== undefined) throw refused(trouble)
  if (wanted === undefined) return usualDeposit(offer, depositMax)
  if (wanted < terms.min_deposit) throw refused(`the seller takes deposits of ${usdc(terms.min_deposit)} or more`)
  if (wanted > depositMax) throw refused(`buyer.channel_deposit_max of this node is ${usdc(depositMax)}`)
  return wanted
}

/** What a deposit is by rule: some calls' worth, and no less than the seller takes. */
export function usualDeposit(offer: Offer, depositMax: bigint): bigint {
  return largest(smallest(channelPrice(offer) * DEPOSIT_CALLS, depositMax), offer.channel.min_deposit)
}

function refused(why: string): CodedError<'INVALID_REQUEST'> {
  return new CodedError('INVALID_REQUEST', `${why}: nothing was signed`)
}

type AskedDeposit = { amount: bigint; byHand: boolean; depositMax: bigint }

function isUsed({ stopped, leaving, deposit, onChain }: StoredChannel): boolean {
  const hasMoney = deposit !== undefined || onChain.balance > onChain.totalClaimed
  return stopped === undefined && leaving === undefined && hasMoney
}

/** Why a deposit must not be made, by all channels of the wallet, whatever process has them. Undefined: it may. */
export function depositTrouble(
  { id, sellerId, network }: StoredChannel,
  { amount, byHand, depositMax }: AskedDeposit,
  all: readonly StoredChannel[],
): string | undefined {
  const same = all.find((other) => other.id === id)
  if (same?.deposit !== undefined) return 'a deposit into this channel is under way'
  if (same?.leaving !== undefined) return 'this node takes its money out of this channel'
  const atSeller = all.filter((other) => other.sellerId === sellerId)
  const open = atSeller.find((other) => other.network === network && isUsed(other))
  if (byHand && open !== undefined) return `channel ${open.id} to this seller is open, and is filled up by itself`
  // The operator may trust the seller again.
  if (!byHand && atSeller.some((other) => other.stopped !== undefined)) return 'a channel to this seller has stopped'
  const [here, everywhere] = [lockedIn(atSeller, network), lockedIn(all, network)]
  if (here + amount > depositMax) {
    const held = `channels to this seller hold ${usdc(here)} and buyer.channel_deposit_max is ${usdc(depositMax)}`
    return `${held}: a deposit of ${usdc(amount)} is too much`
  }
  if (everywhere + amount <= DEPOSITS_MAX) return undefined
  return `channels to all sellers hold ${usdc(everywhere)} of at most ${usdc(DEPOSITS_MAX)}`
}

export function newConfig({ listed, channel }: Offer, payer: Hex, payerAuthorizer: Hex): ChannelConfig {
  return {
    ...{ payer, payerAuthorizer, receiver: listed.payTo as Hex, receiverAuthorizer: channel.receiver_authorizer },
    ...{ token: listed.asset as Hex, withdrawDelay: channel.withdraw_delay },
    // Each process has its own channels: two on one channel would not know of each other's vouchers.
    salt: `0x${randomBytes(32).toString('hex')}`,
  }
}

/** The error of what needs the chain. */
export function noRpc(): CodedError<'CHAIN_UNAVAILABLE'> {
  return new CodedError('CHAIN_UNAVAILABLE', 'no RPC is configured: set ETHEREUM_RPC_URL or --rpc-url')
}
