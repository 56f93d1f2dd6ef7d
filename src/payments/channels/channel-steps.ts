import { channelCalls, type DepositAuthorization } from '../../chain/batch-settlement.ts'
import type { ChannelConfig, SignedVoucher } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { Asset } from '../assets.ts'
import { checksumAddress } from '../secp256k1.ts'
import type { SignedClaim } from './claims.ts'
import type { ChannelRefund } from './seller-channel.ts'

/** A deposit that the payer has authorized. */
type SignedDeposit = { amount: bigint; authorization: DepositAuthorization }
/** A refund that the receiver's authorizer has signed. */
type SignedRefund = ChannelRefund & { signature: Hex }

/** What a seller sends to the contract. All of it is signed, so anyone may send it. */
export type ChannelStep =
  | { type: 'deposit'; config: ChannelConfig; voucher: SignedVoucher; deposit: SignedDeposit }
  | ({ type: 'claim' } & SignedClaim)
  | { type: 'settle'; receiver: Hex; token: Hex }
  /** The claim of what the channel owes is part of the transaction. */
  | {
      type: 'refund'
      config: ChannelConfig
      voucher: SignedVoucher
      refund: SignedRefund
      claim: SignedClaim | undefined
    }

/** A facilitator reads the time limit of a deposit only. Those of a seller's own steps are 0. */
const DEPOSIT_TIMEOUT_SECONDS = 60

/** The data of the transaction that does a step. */
export function dataOf(step: ChannelStep): Hex {
  switch (step.type) {
    case 'deposit':
      return channelCalls.deposit(step.config, step.deposit.amount, step.deposit.authorization)
    case 'claim':
      return channelCalls.claimWithSignature(step.claims, step.signature)
    case 'settle':
      return channelCalls.settle(step.receiver, step.token)
    case 'refund': {
      const refund = channelCalls.refundWithSignature(step.config, step.refund)
      if (step.claim === undefined) return refund
      return channelCalls.multicall([channelCalls.claimWithSignature(step.claim.claims, step.claim.signature), refund])
    }
  }
}

/** The request by which a facilitator does a step, as JSON. */
export function bodyOf(step: ChannelStep, asset: Asset): string {
  const accepted = requirementsOf(step, asset)
  const paymentPayload = { x402Version: 2, accepted, payload: payloadOf(step) }
  const body = { x402Version: 2, paymentPayload, paymentRequirements: accepted }
  return JSON.stringify(body, (_key, value) => (typeof value === 'bigint' ? value.toString() : value))
}

function requirementsOf(step: ChannelStep, { network, address, name, version }: Asset): object {
  const receiver = step.type === 'settle' ? step.receiver : configOf(step).receiver
  const terms = { scheme: 'batch-settlement', network, asset: address, payTo: checksumAddress(receiver as Hex) }
  if (step.type !== 'deposit') return { ...terms, amount: '0', maxTimeoutSeconds: 0, extra: {} }
  const { receiverAuthorizer, withdrawDelay } = spelled(step.config)
  const extra = { name, version, receiverAuthorizer, withdrawDelay, assetTransferMethod: 'eip3009' }
  const amount = step.voucher.maxClaimableAmount
  return { ...terms, amount, maxTimeoutSeconds: DEPOSIT_TIMEOUT_SECONDS, extra }
}

function configOf(step: Exclude<ChannelStep, { type: 'settle' }>): ChannelConfig {
  return step.type === 'claim' ? step.claims[0]!.config : step.config
}

function payloadOf(step: ChannelStep): object {
  switch (step.type) {
    case 'deposit': {
      const { amount, authorization: erc3009Authorization } = step.deposit
      const { config, voucher } = step
      const deposit = { amount, authorization: { erc3009Authorization } }
      return { type: 'deposit', channelConfig: spelled(config), voucher, deposit }
    }
    case 'claim':
      return { type: 'claim', claims: rowsOf(step), claimAuthorizerSignature: step.signature }
    case 'settle':
      return { type: 'settle', receiver: checksumAddress(step.receiver), token: checksumAddress(step.token) }
    case 'refund': {
      const { config, voucher, refund, claim } = step
      const { amount, nonce: refundNonce, signature: refundAuthorizerSignature } = refund
      const claimed = claim && { claimAuthorizerSignature: claim.signature }
      const signed = { amount, refundNonce, refundAuthorizerSignature, claims: claim ? rowsOf(claim) : [], ...claimed }
      return { type: 'refund', channelConfig: spelled(config), voucher, ...signed }
    }
  }
}

function rowsOf({ claims }: SignedClaim): object[] {
  return claims.map(({ config, maxClaimableAmount, signature, totalClaimed }) => ({
    voucher: { channel: spelled(config), maxClaimableAmount },
    ...{ signature, totalClaimed },
  }))
}

/** Facilitators refuse an address whose letter case is wrong (EIP-55). */
function spelled(config: ChannelConfig): ChannelConfig {
  const of = (address: string) => checksumAddress(address as Hex)
  const { payer, payerAuthorizer, receiver, receiverAuthorizer, token } = config
  const parties = { payer: of(payer), payerAuthorizer: of(payerAuthorizer), receiver: of(receiver) }
  return { ...config, ...parties, receiverAuthorizer: of(receiverAuthorizer), token: of(token) }
}
