import type { UnixMs } from '../lib/clock.ts'
import type { ChannelConfig, Charge } from '../schema/channel.ts'
import type { Hex } from '../schema/primitives.ts'
import { parse, textOf } from './amounts-json.ts'
import { type ChannelPlace, channelPage } from './channel-page.ts'
import { toHex } from './hex.ts'
import { type Leaving, leavingText, readLeaving } from './leaving.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { LEFT_BEHIND, takingOver } from './ownership.ts'
import { all, lock, one, type Query, run, steps } from './query.ts'

/** A signed deposit whose end the chain has not shown yet. It is never signed a second time meanwhile. */
export type DepositUnderWay = {
  amount: bigint
  validAfter: bigint
  validBefore: bigint
  salt: Hex
  signature: Hex
  /** The channel's balance on the chain before it. */
  balanceBefore: bigint
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
type LandedDeposit = Pick<DepositUnderWay, 'amount' | 'salt' | 'validBefore'>
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

/** The buyer's channels. Each belongs to one process, which alone signs its vouchers. */
export interface BuyerChannels {
  /**
   * Stores a channel, or a deposit into one, if `isAllowed` says so of all channels as they are then. Durable when it
   * resolves.
   */
  putDeposit(channel: StoredChannel, isAllowed: (all: readonly StoredChannel[]) => boolean): Promise<boolean>
  /** The channels of this process that were not closed before `since`, with their calls in flight. */
  ofProcess(since?: UnixMs): Promise<LoadedChannel[]>
  /** The channels of all processes, newest first. */
  list(): Promise<StoredChannel[]>
  /** The channels of all processes after a place, newest first, with their calls in flight. */
  page(limit: number, before: ChannelPlace | undefined): Promise<LoadedChannel[]>
  get(id: Hex): Promise<LoadedChannel | undefined>
  /** Stores what may be signed. Durable before a signature above the mark of before. */
  raiseMark(id: Hex, mark: bigint): Promise<unknown>
  /** Stores a reading of the chain, and what money counts by. A deposit may be stored meanwhile, and stays. */
  seen(id: Hex, seen: SeenChannel, now: UnixMs): Promise<unknown>
  /** The same, when the deposit under way has landed or can never happen. */
  depositEnded(id: Hex, seen: SeenChannel, now: UnixMs): Promise<unknown>
  /** Signs no more on a channel. The first reason stays. */
  stop(id: Hex, why: string, now: UnixMs): Promise<unknown>
  /** Stores the sums that the seller has proven by a voucher above the mark. */
  adopt(channel: Pick<StoredChannel, 'id' | 'mark' | 'charged' | 'seq' | 'statedSeq' | 'early'>): Promise<unknown>
  /**
   * Stores what `judge` says of a channel as it is then, if it says anything. The process that has the channel is told. A
   * deposit is not stored any more once this has resolved. @returns what holds now, undefined if there is no such channel
   */
  leave(
    id: Hex,
    judge: (channel: StoredChannel) => Leaving | undefined,
    now: UnixMs,
  ): Promise<StoredChannel | undefined>
  /** Stores how far a channel is left. Changes nothing of why and how. */
  noteExit(id: Hex, noted: Pick<Leaving, 'askedAt' | 'trouble'>, now: UnixMs): Promise<unknown>
  /** Stores that nothing is left to take out. */
  close(id: Hex, now: UnixMs): Promise<unknown>
  /** Makes this process the owner of the channels of processes that have ended. */
  takeOver(): Promise<unknown>
}

type BuyerChannelRow = {
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
  agent_id: string | null
  leaving: string | null
  closed_at: number | null
  created_at: number
  used_at: number
}
type InFlightRow = { channel: number; payment_id: Uint8Array; amount: number }

const SELECT = 'SELECT * FROM buyer_channels'
const IN_FLIGHT = `
  SELECT a.channel, a.payment_id, a.amount FROM authorizations a JOIN buyer_channels c ON c.no = a.channel
  WHERE a.channel IS NOT NULL AND a.state = 'reserved' AND `
const PUT = `
  INSERT INTO buyer_channels (id, config, seller_id, network, on_chain, mark, charged, seq, stated_seq, early, stopped,
    deposit, agent_id, leaving, created_at, used_at, updated_at, moved, owner)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET deposit = excluded.deposit, updated_at = excluded.updated_at`
/** A mark never falls, in whatever order its changes are stored. It is decimal text: the longer one is larger. */
const MARK = `
  UPDATE buyer_channels SET mark = ?1
  WHERE id = ?2 AND (length(mark) < length(CAST(?1 AS TEXT)) OR (length(mark) = length(CAST(?1 AS TEXT)) AND mark < ?1))`
const SEEN = 'UPDATE buyer_channels SET on_chain = ?, moved = ?, updated_at = ? WHERE id = ?'
const DEPOSIT_ENDED = 'UPDATE buyer_channels SET on_chain = ?, moved = ?, updated_at = ?, deposit = NULL WHERE id = ?'
const STOP = 'UPDATE buyer_channels SET stopped = coalesce(stopped, ?), updated_at = ? WHERE id = ?'
const ADOPT = 'UPDATE buyer_channels SET mark = ?, charged = ?, seq = ?, stated_seq = ?, early = ? WHERE id = ?'
const LEAVE = 'UPDATE buyer_channels SET leaving = ?, closed_at = NULL, updated_at = ? WHERE id = ?'
const NOTE_EXIT = 'UPDATE buyer_channels SET leaving = ?, updated_at = ? WHERE id = ?'
const CLOSE =
  'UPDATE buyer_channels SET closed_at = ?, updated_at = ? WHERE id = ? AND leaving IS NOT NULL AND deposit IS NULL'
const COUNTED = `
  UPDATE buyer_channels SET charged = ?, seq = ?, stated_seq = ?, early = ?, stopped = coalesce(stopped, ?),
    used_at = ?, updated_at = ?
  WHERE id = ?`

/** Makes a process the owner of channels that were left behind. Their calls in flight follow: see `takeOver` of purchases.ts. */
export const takeOverChannels = (process: string) =>
  run(`UPDATE buyer_channels SET owner = ? WHERE ${LEFT_BEHIND}`, process)

export function createBuyerChannels(database: LedgerDatabase): BuyerChannels {
  const { process } = database
  const load = async (rows: Query<BuyerChannelRow[]>, calls: Query<InFlightRow[]>) => {
    // The calls come first. One that begins in between belongs to this process, which knows of it.
    const inFlight = await database.query(calls)
    return (await database.query(rows)).map((row) => withCalls(row, inFlight))
  }

  return {
    putDeposit: (channel, isAllowed) =>
      database.commit(
        steps(function* () {
          yield* lock('channel deposits')
          if (!isAllowed((yield* all<BuyerChannelRow>(SELECT)).map(toChannel))) return false
          yield* run(PUT, ...valuesOf(channel), process)
          return true
        }),
      ),
    ofProcess: (since = Number.MAX_SAFE_INTEGER) =>
      load(
        all<BuyerChannelRow>(
          `${SELECT} WHERE owner = ? AND (closed_at IS NULL OR closed_at >= ?) ORDER BY no`,
          process,
          since,
        ),
        all<InFlightRow>(`${IN_FLIGHT} c.owner = ?`, process),
      ),
    list: async () => (await database.query(all<BuyerChannelRow>(`${SELECT} ORDER BY no DESC`))).map(toChannel),
    page: (limit, before) =>
      load(channelPage<BuyerChannelRow>('buyer_channels', limit, before), all<InFlightRow>(`${IN_FLIGHT} 1 = 1`)),
    get: async (id) =>
      (
        await load(all<BuyerChannelRow>(`${SELECT} WHERE id = ?`, id), all<InFlightRow>(`${IN_FLIGHT} c.id = ?`, id))
      )[0],
    raiseMark: (id, mark) => database.commit(run(MARK, mark.toString(), id)),
    seen: (id, { onChain, moved }, now) => database.commit(run(SEEN, textOf(onChain), textOf(moved), now, id)),
    depositEnded: (id, { onChain, moved }, now) =>
      database.commit(run(DEPOSIT_ENDED, textOf(onChain), textOf(moved), now, id)),
    stop: (id, why, now) => database.commit(run(STOP, why, now, id)),
    adopt: ({ id, mark, charged, seq, statedSeq, early }) =>
      database.commit(run(ADOPT, mark.toString(), charged.toString(), seq, statedSeq, earlyText(early), id)),
    leave: (id, judge, now) =>
      database.commit(
        steps(function* () {
          yield* lock('channel deposits')
          const row = yield* one<BuyerChannelRow>(`${SELECT} WHERE id = ?`, id)
          if (row === undefined) return undefined
          const channel = toChannel(row)
          const leaving = judge(channel)
          if (leaving === undefined) return channel
          yield* run(LEAVE, leavingText(leaving), now, id)
          return { ...channel, leaving, closedAt: undefined }
        }),
        { record: 'leaving', id },
      ),
    noteExit: (id, noted, now) =>
      database.commit(
        steps(function* () {
          yield* lock('channel deposits')
          const row = yield* one<BuyerChannelRow>(`${SELECT} WHERE id = ?`, id)
          const leaving = row && readLeaving(row.leaving)
          if (leaving !== undefined) yield* run(NOTE_EXIT, leavingText({ ...leaving, ...noted }), now, id)
        }),
      ),
    close: (id, now) => database.commit(run(CLOSE, now, now, id), { record: 'leaving', id }),
    takeOver: () => database.commit(takingOver(takeOverChannels(process))),
  }
}

/** A channel inside of a change. The change that counts a charge reads the sums and writes them. */
export function channelNo(no: number): Query<StoredChannel | undefined> {
  return one<BuyerChannelRow>(`${SELECT} WHERE no = ?`, no).map((row) => row && toChannel(row))
}

/** Stores the sums of a channel after a charge. */
export function putSums(id: Hex, { charged, seq, statedSeq, early, stopped }: ChannelSums, now: UnixMs): Query<number> {
  return run(COUNTED, charged.toString(), seq, statedSeq, earlyText(early), stopped ?? null, now, now, id)
}

function valuesOf(channel: StoredChannel) {
  const { id, config, sellerId, network, onChain, mark, charged, seq, statedSeq, early, stopped } = channel
  return [
    ...[id, JSON.stringify(config), sellerId, network, textOf(onChain), mark.toString(), charged.toString()],
    ...[seq, statedSeq, earlyText(early), stopped ?? null, depositText(channel.deposit), channel.agentId ?? null],
    leavingText(channel.leaving),
    ...[channel.createdAt, channel.usedAt, channel.createdAt, textOf(channel.moved)],
  ]
}

function withCalls(row: BuyerChannelRow, calls: readonly InFlightRow[]): LoadedChannel {
  const channel = toChannel(row)
  const inFlight = new Map<string, bigint>()
  for (const call of calls) {
    if (call.channel === row.no) inFlight.set(toHex(call.payment_id), BigInt(call.amount))
  }
  // The orders of these calls have ended. Their charges wait for an earlier one.
  for (const { call, amount } of channel.early.values()) inFlight.set(call, amount)
  return { ...channel, inFlight }
}

function toChannel(row: BuyerChannelRow): StoredChannel {
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
    agentId: row.agent_id ?? undefined,
    leaving: readLeaving(row.leaving),
    closedAt: row.closed_at ?? undefined,
    createdAt: row.created_at,
    usedAt: row.used_at,
  }
}

const depositText = (deposit: DepositUnderWay | undefined) => (deposit === undefined ? null : textOf(deposit))
const earlyText = (early: StoredChannel['early']) => textOf([...early.values()])
