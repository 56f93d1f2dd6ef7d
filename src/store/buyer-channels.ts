import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import {
  type BuyerChannelRow,
  type ChannelSums,
  type DepositUnderWay,
  earlyText,
  type InFlightRow,
  type LoadedChannel,
  type SeenChannel,
  type StoredChannel,
  textOf,
  toChannel,
  valuesOf,
  withCalls,
} from './buyer-channel-row.ts'
import { type ChannelPlace, channelPage } from './channel-page.ts'
import { type Leaving, leavingText, readLeaving } from './leaving.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { LEFT_BEHIND, takingOver } from './ownership.ts'
import { all, lock, one, type Query, run, steps, together } from './query.ts'

export type {
  ChannelSums,
  DepositUnderWay,
  LandedDeposit,
  LoadedChannel,
  Moved,
  SeenChannel,
  StoredChannel,
} from './buyer-channel-row.ts'

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
  /**
   * Stores that a deposit which had landed is under way again, with what money counts by then.
   *
   * @returns false if another is under way, or the channel is left
   */
  depositAgain(id: Hex, again: SeenChannel & { deposit: DepositUnderWay }, now: UnixMs): Promise<boolean>
  /** Signs no more on a channel. The first reason stays. */
  stop(id: Hex, why: string, now: UnixMs): Promise<unknown>
  /**
   * Stores what `take` makes of the sums of a channel as they are then: its seller has proven others by a voucher above the
   * mark. @returns false if `take` makes nothing of them
   */
  adopt(
    id: Hex,
    take: (channel: StoredChannel) => (ChannelSums & Pick<StoredChannel, 'mark'>) | undefined,
  ): Promise<boolean>
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

const SELECT = 'SELECT * FROM buyer_channels'
const IN_FLIGHT = `
  SELECT a.channel, a.payment_id, a.amount FROM authorizations a JOIN buyer_channels c ON c.no = a.channel
  WHERE a.channel IS NOT NULL AND a.state = 'reserved' AND `
const PUT = `
  INSERT INTO buyer_channels (id, config, seller_id, network, on_chain, mark, charged, seq, stated_seq, early, stopped,
    deposit, agent_id, leaving, created_at, used_at, updated_at, moved, tokens, owner)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET deposit = excluded.deposit, updated_at = excluded.updated_at, tokens = excluded.tokens`
/** A mark never falls, in whatever order its changes are stored. It is decimal text: the longer one is larger. */
const MARK = `
  UPDATE buyer_channels SET mark = ?1
  WHERE id = ?2 AND (length(mark) < length(CAST(?1 AS TEXT)) OR (length(mark) = length(CAST(?1 AS TEXT)) AND mark < ?1))`
const SEEN = 'UPDATE buyer_channels SET on_chain = ?, moved = ?, updated_at = ? WHERE id = ?'
const DEPOSIT_ENDED = 'UPDATE buyer_channels SET on_chain = ?, moved = ?, updated_at = ?, deposit = NULL WHERE id = ?'
const DEPOSIT_AGAIN = `
  UPDATE buyer_channels SET on_chain = ?, moved = ?, updated_at = ?, deposit = ?
  WHERE id = ? AND deposit IS NULL AND leaving IS NULL`
const STOP = 'UPDATE buyer_channels SET stopped = coalesce(stopped, ?), updated_at = ? WHERE id = ?'
const ADOPT = `
  UPDATE buyer_channels SET charged = ?, seq = ?, stated_seq = ?, early = ?, stopped = coalesce(stopped, ?) WHERE id = ?`
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
          const known = (yield* all<BuyerChannelRow>(SELECT)).map(toChannel)
          if (!isAllowed(known)) return false
          const { tokenIds = [] } = known.find(({ id }) => id === channel.id) ?? {}
          const ofAll = new Set([...tokenIds, ...channel.tokenIds])
          yield* run(PUT, ...valuesOf({ ...channel, tokenIds: [...ofAll] }), process)
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
    depositAgain: (id, { onChain, moved, deposit }, now) =>
      database.commit(
        steps(function* () {
          yield* lock('channel deposits')
          const changed = yield* run(DEPOSIT_AGAIN, textOf(onChain), textOf(moved), now, textOf(deposit), id)
          return changed > 0
        }),
      ),
    stop: (id, why, now) => database.commit(run(STOP, why, now, id)),
    adopt: (id, take) =>
      database.commit(
        steps(function* () {
          const row = yield* one<BuyerChannelRow>(`${SELECT} WHERE id = ?`, id)
          const adopted = row && take(toChannel(row))
          if (adopted === undefined) return false
          const { mark, charged, seq, statedSeq, early, stopped } = adopted
          const sums = [charged.toString(), seq, statedSeq, earlyText(early), stopped ?? null] as const
          yield* together(run(MARK, mark.toString(), id), run(ADOPT, ...sums, id))
          return true
        }),
      ),
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
