import { type Argument, encodeValues } from '../chain/abi.ts'
import { batchSettlementAddress, erc3009CollectorAddress } from '../chain/batch-settlement.ts'
import type { ChannelConfig, Voucher } from '../schema/channel.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Asset } from './assets.ts'
import { domainSeparator, type TypedDomain, typedDigest } from './authorization.ts'
import { keccak256 } from './keccak.ts'
import { textHash } from './text-hash.ts'

/*
 * The EIP-712 digests of payment channels (x402's `batch-settlement` scheme). The chain and the contract are part of each
 * digest, so no signature counts on another chain.
 */

const text = (value: string) => toHex(textHash(value))
const CLAIM_ENTRY = 'ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)'
const types = {
  channelConfig: text(
    'ChannelConfig(address payer,address payerAuthorizer,address receiver,address receiverAuthorizer,address token,uint40 withdrawDelay,bytes32 salt)',
  ),
  voucher: text('Voucher(bytes32 channelId,uint128 maxClaimableAmount)'),
  refund: text('Refund(bytes32 channelId,uint256 nonce,uint128 amount)'),
  claimEntry: text(CLAIM_ENTRY),
  claimBatch: text(`ClaimBatch(ClaimEntry[] claims)${CLAIM_ENTRY}`),
  receiveWithAuthorization: text(
    'ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)',
  ),
}

const domains = new Map<number, TypedDomain>()

/** The domain of the contract on a chain. @internal Exported for its test. */
export function channelDomain(chainId: number): TypedDomain {
  let domain = domains.get(chainId)
  if (domain === undefined) {
    domain = { name: 'x402 Batch Settlement', version: '1', chainId, address: batchSettlementAddress }
    domains.set(chainId, domain)
  }
  return domain
}

/** The id of a channel: the digest of its terms. Never take an id from another party: compute it from the terms. */
export function channelId(config: ChannelConfig, chainId: number): Hex {
  const { payer, payerAuthorizer, receiver, receiverAuthorizer, token, withdrawDelay, salt } = config
  const accounts = [payer, payerAuthorizer, receiver, receiverAuthorizer, token]
  const fields = [...accounts.map((address) => ({ address: address as Hex })), BigInt(withdrawDelay), word(salt)]
  return toHex(digestOf(channelDomain(chainId), types.channelConfig, fields))
}

/** What the payer's side signs. */
export function voucherDigest({ channelId, maxClaimableAmount }: Voucher, chainId: number): Uint8Array {
  return digestOf(channelDomain(chainId), types.voucher, [word(channelId), maxClaimableAmount])
}

/** A refund that the receiver agrees to. `amount` is what it signs: the contract pays less if less is left. */
type Refund = { channelId: Hex; nonce: bigint; amount: bigint }

/** What the receiver's authorizer signs for a refund. */
export function refundDigest({ channelId, nonce, amount }: Refund, chainId: number): Uint8Array {
  return digestOf(channelDomain(chainId), types.refund, [word(channelId), nonce, amount])
}

/** One row of a batch of claims. */
type ClaimEntry = Voucher & { totalClaimed: bigint }

/** What the receiver's authorizer signs for a batch of claims. The order of the rows counts. */
export function claimBatchDigest(entries: readonly ClaimEntry[], chainId: number): Uint8Array {
  const rows = entries.map(({ channelId, maxClaimableAmount, totalClaimed }) =>
    keccak256(structOf(types.claimEntry, [word(channelId), maxClaimableAmount, totalClaimed])),
  )
  return digestOf(channelDomain(chainId), types.claimBatch, [word(toHex(keccak256(Buffer.concat(rows))))])
}

/** The payer's authorization of a deposit into a channel. */
export type Deposit = {
  channelId: Hex
  payer: Hex
  amount: bigint
  validAfter: bigint
  validBefore: bigint
  /** A fresh random number for each deposit. */
  salt: Hex
}

/** The EIP-3009 nonce of a deposit. It names the channel, so nobody can lead the money into another one. */
export function depositNonce({ channelId, salt }: Pick<Deposit, 'channelId' | 'salt'>): Hex {
  return toHex(keccak256(bytesOf(encodeValues([word(channelId), word(salt)]))))
}

/** What the payer signs for a deposit, under the domain of the asset. */
export function depositDigest(deposit: Deposit, asset: Asset): Uint8Array {
  const { payer, amount, validAfter, validBefore } = deposit
  const accounts = [payer, erc3009CollectorAddress].map((address) => ({ address: address as Hex }))
  const fields = [...accounts, amount, validAfter, validBefore, word(depositNonce(deposit))]
  return digestOf(asset, types.receiveWithAuthorization, fields)
}

function digestOf(domain: TypedDomain, type: Hex, fields: readonly Argument[]): Uint8Array {
  return typedDigest(domainSeparator(domain), structOf(type, fields))
}

/** The encoding of a struct whose fields are words. EIP-712 and the ABI encode these alike. */
function structOf(type: Hex, fields: readonly Argument[]): Uint8Array {
  return bytesOf(encodeValues([word(type), ...fields]))
}

function word(hex: string): { word: Hex } {
  return { word: hex as Hex }
}

function bytesOf(hex: Hex): Uint8Array {
  return Buffer.from(hex.slice(2), 'hex')
}

function toHex(bytes: Uint8Array): Hex {
  return `0x${Buffer.from(bytes).toString('hex')}`
}
