import type { UnixMs } from '../lib/clock.ts'
import type { ChannelConfig, Charge } from '../schema/channel.ts'
import type { Hex } from '../schema/primitives.ts'
import { toHex } from './hex.ts'
import { type Leaving, leavingText, readLeaving } from './leaving.ts'

/** A signed deposit whose end the chain has not shown yet. It is never signed a second time meanwhile. */
export type DepositUnderWay = {
  amount: bigint
  validAfter: bigint
  validBefore: bigint
  salt: Hex
  signature: Hex
  /** The channel's balance on the chain before it. */
  balanceBefore: bigint
  /** The chain has shown it once, and a reorganization took it back. */
  isUndone?: true
}

/** A channel on the chain, as it was read. `initiatedAt`: block time in Unix seconds. */
type OnChain = {
  balance: bigint
  totalClaimed: bigint
  withdrawal: { amount: bigint; initiatedAt: number } | undefined
  refundNonce: bigint
}
type EarlyCharge = Charge & { call: string }

/** A deposit that the chain has shown. It can be sent until `validBefore`, in Unix seconds, and happens once. */
export type LandedDeposit = Pick<DepositUnderWay, 'amount' | 'salt' | 'validBefore'>
/**
 * Money of a channel by this node's own count: what it has put in, and what the log of the chain shows to have left.
 * `deposits`: the latest that were put in. A reorganization may take one back.
 */
export type Moved = { in: bigint; out: bigint; deposits?: readonly LandedDeposit[] }

/** What a channel's charges change: see payments/channels/buyer-channel.ts. */
export type ChannelSums = {
  charged: bigint
  seq: number
  statedSeq: number
  /** Charges that came before an earlier one, by their number. */
  early: ReadonlyMap<number, EarlyCharge>
  stopped: string | undefined
}

/** A payment channel of this node to a seller. Its calls in flight are the open reservations of orders. */
export type StoredChannel = ChannelSums & {
  id: Hex
  config: ChannelConfig
  onChain: OnChain
  moved: Moved
  /** Nothing above it was ever signed. */
  mark: bigint
  sellerId: string
  network: string
  deposit: DepositUnderWay | undefined
  /** The tokens whose calls have asked for deposits into it. */
  tokenIds: readonly string[]
  /** An agent of its seller, by which the seller is found. Undefined: unknown. */
  agentId?: string | undefined
  /** Set when this node takes its money out. No call is paid by the channel from then on. */
  leaving?: Leaving | undefined
  /** When the chain showed that nothing is left to take out. */
  closedAt?: UnixMs | undefined
  createdAt: UnixMs
  /** When a charge was counted last. */
  usedAt: UnixMs
}
export type SeenChannel = Pick<StoredChannel, 'onChain' | 'moved'>
/** `inFlight`: what each call may cost, by its id. */
export type LoadedChannel = StoredChannel & { inFlight: ReadonlyMap<string, bigint> }

export type BuyerChannelRow = {
  no: number
  id: string
  config: string
  seller_id: string
  network: string
  on_chain: string
  moved: string | null
  mark: string
  charged: string
  seq: number
  stated_seq: number
  early: string
  stopped: string | null
  deposit: string | null
  tokens: string | null
  agent_id: string | null
  leaving: string | null
  closed_at: number | null
  created_at: number
  used_at: number
}
export type InFlightRow = { channel: number; payment_id: Uint8Array; amount: number }

export function valuesOf(channel: StoredChannel) {
  const { id, config, sellerId, network, onChain, mark, charged, seq, statedSeq, early, stopped } = channel
  return [
    ...[id, JSON.stringify(config), sellerId, network, textOf(onChain), mark.toString(), charged.toString()],
    ...[seq, statedSeq, earlyText(early), stopped ?? null, depositText(channel.deposit), channel.agentId ?? null],
    leavingText(channel.leaving),
    ...[channel.createdAt, channel.usedAt, channel.createdAt, textOf(channel.moved)],
    channel.tokenIds.length === 0 ? null : JSON.stringify(channel.tokenIds),
  ]
}

export function withCalls(row: BuyerChannelRow, calls: readonly InFlightRow[]): LoadedChannel {
  const channel = toChannel(row)
  const inFlight = new Map<string, bigint>()
  for (const call of calls) {
    if (call.channel === row.no) inFlight.set(toHex(call.payment_id), BigInt(call.amount))
  }
  // The orders of these calls have ended. Their charges wait for an earlier one.
  for (const { call, amount } of channel.early.values()) inFlight.set(call, amount)
  return { ...channel, inFlight }
}

export function toChannel(row: BuyerChannelRow): StoredChannel {
  const onChain = parse<OnChain>(row.on_chain)
  return {
    id: row.id as Hex,
    config: JSON.parse(row.config) as ChannelConfig,
    sellerId: row.seller_id,
    network: row.network,
    onChain,
    moved: row.moved === null ? { in: onChain.balance, out: 0n } : parse<Moved>(row.moved),
    mark: BigInt(row.mark),
    charged: BigInt(row.charged),
    seq: row.seq,
    statedSeq: row.stated_seq,
    early: new Map(parse<EarlyCharge[]>(row.early).map((charge) => [charge.seq, charge])),
    stopped: row.stopped ?? undefined,
    deposit: row.deposit === null ? undefined : parse<DepositUnderWay>(row.deposit),
    tokenIds: row.tokens === null ? [] : (JSON.parse(row.tokens) as string[]),
    agentId: row.agent_id ?? undefined,
    leaving: readLeaving(row.leaving),
    closedAt: row.closed_at ?? undefined,
    createdAt: row.created_at,
    usedAt: row.used_at,
  }
}

const depositText = (deposit: DepositUnderWay | undefined) => (deposit === undefined ? null : textOf(deposit))
export const earlyText = (early: StoredChannel['early']) => textOf([...early.values()])

/** JSON in which an amount is its digits and an `n`, so that it reads back as an amount. */
export function textOf(value: unknown): string {
  return JSON.stringify(value, (_, field: unknown) => (typeof field === 'bigint' ? `${field}n` : field))
}

function parse<T>(text: string): T {
  const revive = (_: string, field: unknown) =>
    typeof field === 'string' && /^[0-9]+n$/.test(field) ? BigInt(field.slice(0, -1)) : field
  return JSON.parse(text, revive) as T
}
