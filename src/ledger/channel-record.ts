import { largest } from '../lib/bigints.ts'
import { isoTime, type UnixMs } from '../lib/clock.ts'
import { defined } from '../lib/defined.ts'
import { owedAtMost } from '../payments/channels/buyer-channel.ts'
import { CallAmounts } from '../payments/channels/call-amounts.ts'
import { spendableOf } from '../payments/channels/seller-channel.ts'
import { formatPrice } from '../schema/amount.ts'
import type { ChannelConfig } from '../schema/channel.ts'
import type { ChannelRecord } from '../schema/channel-record.ts'
import type { LoadedChannel } from '../store/buyer-channels.ts'
import type { Leaving } from '../store/leaving.ts'
import type { StoredSellerChannel } from '../store/seller-channels.ts'

/** What the other side and its agent are called, where that is known. */
type Names = { peer?: string | undefined; agent?: string | undefined }

/** A channel by which this node pays, as people see it. */
export function payingChannel(channel: LoadedChannel, names: Names = {}): ChannelRecord {
  const { sellerId, agentId, mark, seq, stopped, deposit, inFlight, leaving, closedAt } = channel
  const left = spendableOf(channel) - owedAtMost({ ...channel, inFlight: CallAmounts.of(inFlight) })
  const free = stopped === undefined && leaving === undefined ? largest(left, 0n) : 0n
  return {
    ...common(channel, { role: 'buyer', peerId: sellerId, names, state: stateOf(channel), signed: mark, free }),
    ...defined({ agent_id: agentId, agent_name: names.agent }),
    calls: seq,
    calls_under_way: inFlight.size,
    ...(deposit !== undefined && {
      deposit: { ...amounts('amount', deposit.amount), valid_before: secondsTime(Number(deposit.validBefore)) },
    }),
    ...rest(channel),
    ...(leaving !== undefined && { leaving: leavingOf(leaving) }),
    ...(closedAt !== undefined && { closed_at: isoTime(closedAt) }),
    ...defined({ stopped }),
  }
}

/** A channel by which this node is paid, as people see it. */
export function paidChannel(channel: StoredSellerChannel, names: Names = {}): ChannelRecord {
  const { peerId, best, charged, seq, owedSince } = channel
  const signed = best?.maxClaimableAmount ?? 0n
  const free = largest(spendableOf(channel) - charged, 0n)
  return {
    ...common(channel, { role: 'seller', peerId, names, state: stateOf(channel), signed, free }),
    calls: seq,
    ...rest(channel),
    ...(owedSince !== undefined && { owed_since: isoTime(owedSince) }),
  }
}

type Common = Pick<LoadedChannel, 'id' | 'network' | 'config' | 'onChain' | 'charged' | 'createdAt' | 'usedAt'>
type Seen = Pick<ChannelRecord, 'role' | 'state'> & { peerId: string; names: Names; signed: bigint; free: bigint }

function common({ id, network, config, onChain, charged }: Common, { role, peerId, names, state, signed, free }: Seen) {
  const { payer, receiver, token: asset } = config
  const { balance, totalClaimed } = onChain
  return {
    ...{ id, role, state, peer_id: peerId, ...defined({ peer_name: names.peer }), payer, receiver, network, asset },
    ...{ ...amounts('balance', balance), ...amounts('charged', charged), ...amounts('signed', signed) },
    ...amounts('claimed', totalClaimed),
    ...amounts('unclaimed', largest(charged - totalClaimed, 0n)),
    ...amounts('free', free),
  }
}

function rest({ onChain: { withdrawal }, config, createdAt, usedAt }: Common) {
  return {
    ...(withdrawal !== undefined && { withdrawal: withdrawalOf(withdrawal, config) }),
    withdraw_delay_seconds: config.withdrawDelay,
    ...{ created_at: isoTime(createdAt), used_at: isoTime(usedAt) },
  }
}

type Withdrawal = NonNullable<LoadedChannel['onChain']['withdrawal']>

function withdrawalOf({ amount, initiatedAt }: Withdrawal, { withdrawDelay }: ChannelConfig) {
  const times = { started_at: secondsTime(initiatedAt), ends_at: secondsTime(initiatedAt + withdrawDelay) }
  return { ...amounts('amount', amount), ...times }
}

type Judged = Pick<LoadedChannel, 'onChain'> &
  Partial<Pick<LoadedChannel, 'deposit' | 'stopped' | 'leaving' | 'closedAt'>>

function stateOf({ onChain, deposit, stopped, leaving, closedAt }: Judged): ChannelRecord['state'] {
  const { balance, totalClaimed, withdrawal } = onChain
  if (withdrawal !== undefined) return 'withdrawing'
  if (closedAt !== undefined) return 'closed'
  if (leaving !== undefined) return 'leaving'
  if (stopped !== undefined) return 'stopped'
  if (balance > totalClaimed) return 'open'
  return deposit === undefined ? 'empty' : 'opening'
}

function leavingOf({ why, way, since, trouble }: Leaving) {
  return { why, way, since: isoTime(since), ...defined({ trouble: trouble?.reason }) }
}

function amounts<const Name extends string>(name: Name, amount: bigint) {
  const both = { [name]: formatPrice(amount), [`${name}_atomic`]: amount.toString() }
  return both as { [K in Name | `${Name}_atomic`]: string }
}

const secondsTime = (seconds: UnixMs) => isoTime(seconds * 1000)
