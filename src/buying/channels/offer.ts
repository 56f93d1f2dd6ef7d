import { randomBytes } from 'node:crypto'
import { largest, smallest } from '../../lib/bigints.ts'
import { CodedError } from '../../lib/errors.ts'
import { sameAddress } from '../../payments/assets.ts'
import type { ChannelConfig } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'
import { channelPrice, type Terms } from '../guard.ts'
import type { ChannelLine } from './channel-line.ts'

/** The first deposit, and each one that fills a channel up, pay so many calls. */
const DEPOSIT_CALLS = 20n

/** What a node does with payment channels. Amounts are atomic units. */
export type ChannelOptions = {
  /**
   * `off`: opens none, and pays no new calls by those that are open. `auto`: opens one for cheap and frequent calls.
   * `always`: opens one at the first call of each seller that offers them.
   */
  mode: 'off' | 'auto' | 'always'
  /** False: `auto` opens none, and pays by those that are open. Default: true. */
  opensByRule?: boolean
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

/** What a deposit is by rule: some calls' worth, and no less than the seller takes. */
export function usualDeposit(offer: Offer, depositMax: bigint): bigint {
  return largest(smallest(channelPrice(offer) * DEPOSIT_CALLS, depositMax), offer.channel.min_deposit)
}

/**
 * A channel with less than this is filled up: with less than a quarter of the usual deposit, or than its calls of half a minute
 * cost, so that the deposit has the time to land. More than half of what may lie at a seller is never kept in reserve.
 */
export function lowMark(
  offer: Offer,
  { depositMax, paidLately }: Pick<ChannelOptions, 'depositMax'> & { paidLately: bigint },
): bigint {
  return largest((usualDeposit(offer, depositMax) + 3n) / 4n, smallest(paidLately, depositMax) / 2n)
}

/** What may still be deposited, if that is less than usual, and enough for a call and its seller. A quarter is worth a transaction. */
export function fillUp(offer: Offer, usual: bigint, room: bigint): bigint {
  const least = largest(offer.channel.min_deposit, channelPrice(offer), usual / 4n)
  return room < usual && room >= least ? room : usual
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
