import type { UnixMs } from '../../lib/clock.ts'
import type { ChannelRecord, ChannelSums } from '../../schema/channel-record.ts'
import { age } from './market-text.ts'
import { columns, printableLine } from './terminal-text.ts'

/** The state of a channel. A withdrawal has its clock. */
export function channelStateText({ state, withdrawal }: ChannelRecord, now: UnixMs): string {
  return withdrawal === undefined ? state : `${state} (${timeLeft(withdrawal.ends_at, now)})`
}

/** Whom a channel pays, or who pays by it, in a table. */
export function channelPeerText({ peer_name, agent_name, peer_id }: ChannelRecord): string {
  const seller = agent_name && `seller of ${agent_name}`
  return printableLine(peer_name ?? seller ?? `…${peer_id.slice(-8)}`, 24)
}

/** `ends in 23 h`, by the clock of this machine, or `can end now`. */
function timeLeft(at: string, now: UnixMs): string {
  const minutes = Math.floor((Date.parse(at) - now) / 60_000)
  if (minutes < 1) return 'can end now'
  return minutes < 120 ? `ends in ${minutes} min` : `ends in ${Math.floor(minutes / 60)} h`
}

const LEFT_BECAUSE = {
  asked: 'you asked for it',
  idle: 'it was not used for long',
  stopped: 'its seller stated what cannot be true',
} as const
/** `0.097 USDC locked in 1 channel; 0.003 USDC not claimed of 2`. */
export function channelsText({ paying, paid }: ChannelSums): string {
  const many = (count: number) => (count === 1 ? '1 channel' : `${count} channels`)
  const leaving = (count: number) => (count === 0 ? '' : `, ${count} with a withdrawal`)
  return [
    ...(paying.channels === 0
      ? []
      : [`${paying.locked} USDC locked in ${many(paying.channels)}${leaving(paying.withdrawing)}`]),
    ...(paid.channels === 0
      ? []
      : [`${paid.unclaimed} USDC not claimed in ${many(paid.channels)} of buyers${leaving(paid.withdrawing)}`]),
  ].join('; ')
}

function callsText(count: number): string {
  return count === 1 ? '1 call' : `${count} calls`
}

/** A channel for people: one line for each fact, money first. */
export function channelLines(channel: ChannelRecord, now: UnixMs): string[] {
  const {
    role,
    peer_id,
    peer_name,
    agent_id,
    agent_name,
    deposit,
    withdrawal,
    stopped,
    calls_under_way,
    owed_since,
    leaving,
  } = channel
  const isBuyer = role === 'buyer'
  const rows: [string, string | undefined][] = [
    ['channel', channel.id],
    ['role', isBuyer ? 'buyer: this node pays' : 'seller: this node is paid'],
    ['state', channelStateText(channel, now)],
    ['stopped because', stopped],
    ['left since', leaving && `${leaving.since}: ${LEFT_BECAUSE[leaving.why]}`],
    ['trouble', leaving?.trouble],
    ['closed', channel.closed_at],
    ['balance', `${channel.balance} USDC`],
    ['charged', `${channel.charged} USDC in ${callsText(channel.calls)}`],
    ['under way', calls_under_way === undefined || calls_under_way === 0 ? undefined : callsText(calls_under_way)],
    ['signed', `${channel.signed} USDC: ${isBuyer ? 'the seller' : 'this node'} can claim no more`],
    ['claimed', `${channel.claimed} USDC`],
    ['unclaimed', `${channel.unclaimed} USDC${owed_since === undefined ? '' : `, for ${age(owed_since, now)}`}`],
    ['free', `${channel.free} USDC`],
    ['deposit', deposit && `${deposit.amount} USDC is under way; it can happen until ${deposit.valid_before}`],
    ['withdrawal', withdrawal && `${withdrawal.amount} USDC, from ${withdrawal.ends_at} on`],
    [isBuyer ? 'seller' : 'buyer', peer_name === undefined ? peer_id : `${peer_name} (${peer_id})`],
    ['opened for', agent_name ?? agent_id],
    ['payer', channel.payer],
    ['receiver', channel.receiver],
    ['network', channel.network],
    ['asset', channel.asset],
    ['withdraw delay', `${channel.withdraw_delay_seconds / 3600} h`],
    ['opened', channel.created_at],
    ['last used', channel.used_at],
  ]
  const known = rows.flatMap(([name, value]) => (value === undefined ? [] : [[name, printableLine(value)]]))
  return columns(known, { gap: 2 })
}
