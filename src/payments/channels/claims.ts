import {
  batchSettlementAddress,
  type ChannelClaim,
  type ChannelReader,
  channelCalls,
} from '../../chain/batch-settlement.ts'
import type { Chain } from '../../chain/chain.ts'
import { RpcRefusal } from '../../chain/rpc.ts'
import { reasonOf } from '../../lib/errors.ts'
import type { Hex } from '../../schema/primitives.ts'
import { claimBatchDigest } from '../channel-digests.ts'
import type { ChannelSigner } from './channel-keys.ts'
import { claimOf, type SellerChannel, seenOnChain, unclaimedOf } from './seller-channel.ts'

/** Rows of one transaction. Hosted facilitators take 25. */
const ROWS_MAX = 25

/** In USDC atomic units, ten times what a transaction costs. */
const WORTH = 10_000n

/** A claim that the receiver's authorizer has signed, so anyone may send it. */
export type SignedClaim = {
  /** The channel of each row. */
  ids: readonly Hex[]
  claims: readonly ChannelClaim[]
  signature: Hex
}

export type ClaimsDeps = {
  chain: Pick<Chain, 'request'>
  reader: Pick<ChannelReader, 'channels'>
  chainId: number
  authorizer: Pick<ChannelSigner, 'sign'>
  /** Sends a claim by a facilitator or by an own transaction. What it answers is not believed. */
  submit(claim: SignedClaim, signal: AbortSignal): Promise<unknown>
  /** Takes in what the chain says of a channel. */
  seen(channel: SellerChannel): Promise<void>
}

/** What became of the channels whose claim was asked for. */
type ClaimReport = {
  /** The channels as the chain has them now. */
  channels: SellerChannel[]
  /** Channels whose claim did not happen, and why. It may be tried again: a claim that has happened is skipped. */
  failed: { channel: SellerChannel; reason: string }[]
}

/** When a seller claims. Amounts in atomic units. */
type ClaimPolicy = { unclaimedMax: bigint; everyMs: number }

/** True if a withdrawal that has begun takes out what was charged and not claimed, when it ends. */
export function isAtRisk({ onChain, charged }: SellerChannel): boolean {
  return onChain.withdrawal !== undefined && charged > onChain.balance - onChain.withdrawal.amount
}

/**
 * True if a withdrawal has what a channel owes claimed at once. A payer could begin to take one unit out and never end it: then
 * each minute would cost a claim. So what is not at risk must be worth one.
 */
export function isClaimedNow(channel: SellerChannel): boolean {
  return channel.onChain.withdrawal !== undefined && (isAtRisk(channel) || unclaimedOf(channel) >= WORTH)
}

/**
 * The channels to claim now: what they owe is over the limit, is older than the interval, or is claimed because of a withdrawal.
 *
 * @param owedForMs for how long a channel has owed something
 */
export function dueClaims(
  channels: readonly SellerChannel[],
  owedForMs: (channel: SellerChannel) => number,
  { unclaimedMax, everyMs }: ClaimPolicy,
): SellerChannel[] {
  return channels.filter((channel) => {
    if (claimOf(channel) === undefined) return false
    return isClaimedNow(channel) || unclaimedOf(channel) > unclaimedMax || owedForMs(channel) >= everyMs
  })
}

/**
 * Claims what these channels owe. Only the chain says what was claimed before and after: the answer of the sender of the
 * claim is never believed. A row that the contract refuses does not stop the others.
 *
 * @throws ChainError if the chain cannot be read. Then nothing more was sent
 */
export async function claimChannels(
  channels: readonly SellerChannel[],
  deps: ClaimsDeps,
  signal: AbortSignal,
): Promise<ClaimReport> {
  const report: ClaimReport = { channels: [], failed: [] }
  for (let at = 0; at < channels.length; at += ROWS_MAX) {
    const batch = await readAgain(channels.slice(at, at + ROWS_MAX), deps, signal)
    const owing = batch.filter((channel) => claimOf(channel) !== undefined)
    report.channels.push(...batch.filter((channel) => !owing.includes(channel)))
    const { good, bad } = await sortOut(owing, deps, signal)
    report.channels.push(...bad.map(({ channel }) => channel))
    report.failed.push(...bad)
    if (good.length === 0) continue
    const refusal = await deps.submit(signClaim(good, deps), signal).then(() => undefined, reasonOf)
    for (const channel of await readAgain(good, deps, signal)) {
      report.channels.push(channel)
      if (claimOf(channel) === undefined) continue
      report.failed.push({ channel, reason: refusal ?? 'the claim was sent, and the chain does not show it yet' })
    }
  }
  return report
}

async function readAgain(
  channels: readonly SellerChannel[],
  { reader, seen }: ClaimsDeps,
  signal: AbortSignal,
): Promise<SellerChannel[]> {
  const states = await reader.channels(
    channels.map(({ id }) => id),
    signal,
  )
  const now = channels.map((channel, index) => seenOnChain(channel, states[index]!))
  for (const channel of now) await seen(channel)
  return now
}

type Sorted = { good: SellerChannel[]; bad: ClaimReport['failed'] }

/** Finds the channels whose rows the contract takes. One that it refuses would undo the whole claim. */
async function sortOut(channels: readonly SellerChannel[], deps: ClaimsDeps, signal: AbortSignal): Promise<Sorted> {
  if (channels.length === 0) return { good: [], bad: [] }
  const { claims, signature } = signClaim(channels, deps)
  const call = { to: batchSettlementAddress, data: channelCalls.claimWithSignature(claims, signature) }
  try {
    await deps.chain.request('eth_call', [call, 'latest'], signal)
    return { good: [...channels], bad: [] }
  } catch (error) {
    if (!(error instanceof RpcRefusal && error.isRevert)) throw error
    const [channel] = channels
    if (channels.length === 1) return { good: [], bad: [{ channel: channel!, reason: reasonOf(error) }] }
    const half = Math.ceil(channels.length / 2)
    const parts = [channels.slice(0, half), channels.slice(half)]
    const [left, right] = await Promise.all(parts.map((part) => sortOut(part, deps, signal)))
    return { good: [...left!.good, ...right!.good], bad: [...left!.bad, ...right!.bad] }
  }
}

/** Signs the claim of channels that owe something. */
export function signClaim(
  channels: readonly SellerChannel[],
  { authorizer, chainId }: Pick<ClaimsDeps, 'authorizer' | 'chainId'>,
): SignedClaim {
  const claims = channels.map((channel) => {
    const { totalClaimed, voucher } = claimOf(channel)!
    const { maxClaimableAmount, signature } = voucher
    return { config: channel.config, maxClaimableAmount, signature: signature as Hex, totalClaimed }
  })
  const entries = claims.map(({ maxClaimableAmount, totalClaimed }, index) => ({
    ...{ channelId: channels[index]!.id, maxClaimableAmount, totalClaimed },
  }))
  return { ids: channels.map(({ id }) => id), claims, signature: authorizer.sign(claimBatchDigest(entries, chainId)) }
}
