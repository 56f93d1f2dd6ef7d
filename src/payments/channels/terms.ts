import type { ChannelConfig } from '../../schema/channel.ts'
import { sameAddress } from '../assets.ts'
import { ChannelRefused } from './channel-refused.ts'

const NOBODY = '0x0000000000000000000000000000000000000000'

/** What a seller wants of every channel to it. */
export type SellerTerms = {
  receiver: string
  /** The seller's own key, never a facilitator's: its owner can give the escrow back to the payer. */
  receiverAuthorizer: string
  token: string
  /** The seller must look at the chain several times within this time. */
  withdrawDelaySecondsMin: number
}

/**
 * Tells why a seller must not work on a channel with this config. Undefined: nothing speaks against it. The channel's id
 * must be computed from the config, so the seller compares nothing else.
 */
export function troubleForSeller(config: ChannelConfig, terms: SellerTerms): string | undefined {
  const { receiver, receiverAuthorizer, token, withdrawDelay, payerAuthorizer } = config
  if (!sameAddress(receiver, terms.receiver)) return `receiver is ${receiver}, and must be ${terms.receiver}`
  if (!sameAddress(receiverAuthorizer, terms.receiverAuthorizer)) {
    return `receiverAuthorizer is ${receiverAuthorizer}, and must be ${terms.receiverAuthorizer}`
  }
  if (!sameAddress(token, terms.token)) return `token is ${token}, and must be ${terms.token}`
  if (withdrawDelay < terms.withdrawDelaySecondsMin) {
    return `withdrawDelay is ${withdrawDelay} s, and must be at least ${terms.withdrawDelaySecondsMin} s`
  }
  // The payer itself would sign. It can become a contract later (EIP-7702), and then the chain refuses its vouchers.
  if (sameAddress(payerAuthorizer, NOBODY)) return 'payerAuthorizer is missing: vouchers must be signed by a plain key'
  return undefined
}

/** What a buyer risks at most for one channel. */
type BuyerTerms = { withdrawDelaySecondsMax: number; depositMax: bigint }

/**
 * Tells why a buyer must not put money into a channel at this seller. Undefined: nothing speaks against it.
 */
export function troubleForBuyer(
  offer: { withdrawDelay: number; minDeposit: bigint },
  { withdrawDelaySecondsMax, depositMax }: BuyerTerms,
): string | undefined {
  if (offer.withdrawDelay > withdrawDelaySecondsMax) {
    return `the seller may hold a withdrawal for ${offer.withdrawDelay} s, and this node accepts ${withdrawDelaySecondsMax} s`
  }
  if (offer.minDeposit > depositMax) {
    return `the seller wants a deposit of ${offer.minDeposit}, and this node gives ${depositMax} at most`
  }
  return undefined
}

/** @throws ChannelRefused */
export function refuseTerms(config: ChannelConfig, terms: SellerTerms): void {
  const trouble = troubleForSeller(config, terms)
  if (trouble !== undefined) throw new ChannelRefused('refused', trouble)
}
