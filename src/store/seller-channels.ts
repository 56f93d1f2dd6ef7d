import type { UnixMs } from '../lib/clock.ts'
import { ChannelConfig, type SignedVoucher } from '../schema/channel.ts'
import type { Hex } from '../schema/primitives.ts'
import { type ChannelCall, recordCall } from './channel-calls.ts'
import { type ChannelPlace, channelPage } from './channel-page.ts'
import { toBytes, toHex } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { LEFT_BEHIND } from './ownership.ts'
import { all, lock, nothing, one, type Query, run, steps, together, type Value } from './query.ts'

/**
 * A payment channel to this node. Its owner is the process that works with it: nobody else changes the row (ADR-27,
 * ADR-35). Amounts are atomic units.
 */
export type StoredSellerChannel = {
  id: Hex
  network: string
  config: ChannelConfig
  /** The peer that may use it. */
  peerId: string
  /** The channel on the chain, and when it was read there. */
  onChain: {
    balance: bigint
    totalClaimed: bigint
    withdrawal: { amount: bigint; initiatedAt: number } | undefined
    refundNonce: bigint
  }
  seenAt: UnixMs
  /** The voucher with the highest ceiling. */
  best: SignedVoucher | undefined
  /** The sum of all charges, and their number. */
  charged: bigint
  seq: number
  /** The last refund that was signed. Anyone may send it, so it is stored before it is shown to anybody. */
  refund?: { nonce: bigint; amount: bigint } | undefined
  /** Since when something is charged and not claimed. */
  owedSince: UnixMs | undefined
  createdAt: UnixMs
  usedAt: UnixMs
}

/** A channel and whether this process has it. Another process that is alive may have it. @internal Exported for its test. */
export type TakenChannel = { channel: StoredSellerChannel; isOwn: boolean }

/** The amounts of a channel. */
export type ChannelAmounts = { balance: bigint; totalClaimed: bigint; charged: bigint; isWithdrawing: boolean }

export interface SellerChannelStore {
  /**
   * Stores a channel, which this process then has. `full`: its peer, or all peers, have too many. `known`: it is stored
   * already.
   */
  add(channel: StoredSellerChannel, limits: { perPeerMax: number; max: number }): Promise<'added' | 'full' | 'known'>
  /** Makes this process the owner of a channel that no living process has. Undefined: there is no such channel. */
  take(id: Hex): Promise<TakenChannel | undefined>
  /** Asks the process that has a channel to give it up. */
  ask(id: Hex): Promise<void>
  /** Lets any process have a channel of this one. */
  giveUp(id: Hex): Promise<void>
  /**
   * Stores a channel of this process. Durable when it resolves. False: this process does not have the channel, or its
   * number of charges is not `seqBefore`. Nothing is stored then.
   */
  save(channel: StoredSellerChannel, seqBefore: number): Promise<boolean>
  /** Like `save`, with the calls that ended: their payments and exchanges are stored in the same transaction. */
  charge(
    channel: StoredSellerChannel,
    seqBefore: number,
    ended: { calls: readonly ChannelCall[]; now: UnixMs },
  ): Promise<boolean>
  /** All channels of a network, oldest first. */
  list(network: string): Promise<TakenChannel[]>
  /** The channels of all networks after a place, newest first. */
  page(limit: number, before: ChannelPlace | undefined): Promise<StoredSellerChannel[]>
  get(id: Hex): Promise<StoredSellerChannel | undefined>
  /** The amounts of all channels of a network. */
  amounts(network: string): Promise<ChannelAmounts[]>
}

type ChannelRow = {
  id: Uint8Array
  network: string
  config: string
  peer_id: string
  balance: string
  claimed: string
  withdrawal: string | null
  withdrawal_at_s: number | null
  refund_nonce: string
  seen_at: number
  ceiling: string | null
  signature: Uint8Array | null
  charged: string
  seq: number
  signed_refund: string | null
  signed_refund_nonce: string | null
  owed_since: number | null
  owner: string | null
  created_at: number
  used_at: number
}

type AmountsRow = Pick<ChannelRow, 'balance' | 'claimed' | 'charged' | 'withdrawal'>

/** How long an emptied channel is kept: a payer could fill the ledger with channels whose deposits it takes back. */
const EMPTY_KEPT_MS = 30 * 24 * 60 * 60 * 1000
/** How long a channel that owes nothing is kept where there would be no room for another one. */
const IDLE_KEPT_MS = 60 * 60 * 1000

const CHANGING = [
  ...['balance', 'claimed', 'withdrawal', 'withdrawal_at_s', 'refund_nonce', 'seen_at'],
  ...['ceiling', 'signature', 'charged', 'seq', 'signed_refund', 'signed_refund_nonce', 'owed_since', 'used_at'],
]
const INSERT = `
  INSERT INTO seller_channels (id, network, config, owner, created_at, peer_id, ${CHANGING.join(', ')})
  VALUES (?, ?, ?, ?, ?, ?, ${CHANGING.map(() => '?').join(', ')}) ON CONFLICT DO NOTHING`
const COUNT = `
  SELECT count(*) AS n, (SELECT count(*) FROM seller_channels WHERE peer_id = ?) AS of_peer FROM seller_channels`
/**
 * Channels that owe nothing. Equal texts are equal sums. What is claimed cannot be lost with the row: the chain has it. A
 * refund that was signed and did not happen is only here, and anyone can still send it.
 */
const PURGE = `
  DELETE FROM seller_channels WHERE charged = claimed AND used_at < ?
    AND (signed_refund_nonce IS NULL OR CAST(signed_refund_nonce AS BIGINT) < CAST(refund_nonce AS BIGINT))`
const PURGE_EMPTY = `${PURGE} AND balance = claimed`
/** In USDC atomic units. Nobody tries to get less. */
const LITTLE = 10_000
/**
 * Idle channels of a peer, or of all peers. Channels that were left must not keep a peer out, whether they are its own or of
 * others. A claim shows a voucher to everybody. If the voucher covers more than was charged, anyone could use it up after its
 * channel is forgotten. So such a channel is kept while there is money in it.
 */
const PURGE_IDLE = `${PURGE} AND (peer_id = ? OR (SELECT count(*) FROM seller_channels) >= ?)
  AND (ceiling IS NULL OR ceiling = charged OR CAST(balance AS NUMERIC) - CAST(claimed AS NUMERIC) < ${LITTLE})`
const SELECT = 'SELECT * FROM seller_channels WHERE id = ?'
const TAKE = `UPDATE seller_channels SET owner = ?1 WHERE id = ?2 AND (owner = ?1 OR ${LEFT_BEHIND})`
const GIVE_UP = 'UPDATE seller_channels SET owner = NULL WHERE id = ? AND owner = ?'
const SAVE = `
  UPDATE seller_channels SET ${CHANGING.map((name) => `${name} = ?`).join(', ')} WHERE id = ? AND owner = ? AND seq = ?`
/** By itself, because it writes to an index, and as a rule the peer is the same. After `SAVE`, and only if that has changed the row. */
const MOVE = 'UPDATE seller_channels SET peer_id = ?1 WHERE id = ?2 AND owner = ?3 AND seq = ?4 AND peer_id <> ?1'
const AMOUNTS = 'SELECT balance, claimed, charged, withdrawal FROM seller_channels WHERE network = ?'
const LIST = 'SELECT * FROM seller_channels WHERE network = ? ORDER BY created_at, id'

/** Nothing of the change is stored. */
class NotSaved extends Error {
  override name = 'NotSaved'
}

export function createSellerChannelStore(database: LedgerDatabase): SellerChannelStore {
  const { process } = database
  const taken = (row: ChannelRow): TakenChannel => ({ channel: fromRow(row), isOwn: row.owner === process })
  const saved = (channel: StoredSellerChannel, seqBefore: number) =>
    together(
      run(SAVE, ...changing(channel), toBytes(channel.id), process, seqBefore),
      run(MOVE, channel.peerId, toBytes(channel.id), process, channel.seq),
    ).map(([isSaved]) => isSaved)

  return {
    add: (channel, limits) => database.commit(added(channel, process, limits)),
    async take(id) {
      const bytes = toBytes(id)
      const [, row] = await database.commit(together(run(TAKE, process, bytes), one<ChannelRow>(SELECT, bytes)))
      return row && taken(row)
    },
    async ask(id) {
      await database.commit(nothing(undefined), { record: 'channel', id })
    },
    async giveUp(id) {
      await database.commit(run(GIVE_UP, toBytes(id), process))
    },
    save: async (channel, seqBefore) => (await database.commit(saved(channel, seqBefore))) === 1,
    async charge(channel, seqBefore, { calls, now }) {
      // All in one step: a charge waits for it and for the commit.
      const stored = steps(function* () {
        const records = together(...calls.map((call) => recordCall(call, { channel, process, now })))
        const [isSaved, areNew] = yield* together(saved(channel, seqBefore), records)
        if (isSaved === 0) throw new NotSaved(`the channel ${channel.id} has changed elsewhere`)
        if (!areNew.every(Boolean)) throw new Error('a call on a channel has ended twice')
        return true
      })
      try {
        return await database.commit(stored, ...calls.map(({ id }) => ({ record: 'payment', id }) as const))
      } catch (error) {
        if (error instanceof NotSaved) return false
        throw error
      }
    },
    list: async (network) => (await database.query(all<ChannelRow>(LIST, network))).map(taken),
    async page(limit, before) {
      const place = before && { ...before, id: toBytes(before.id) }
      return (await database.query(channelPage<ChannelRow>('seller_channels', limit, place))).map(fromRow)
    },
    async get(id) {
      const row = await database.query(one<ChannelRow>(SELECT, toBytes(id)))
      return row && fromRow(row)
    },
    async amounts(network) {
      const rows = await database.query(all<AmountsRow>(AMOUNTS, network))
      return rows.map(({ balance, claimed, charged, withdrawal }) => {
        const sums = { balance: BigInt(balance), totalClaimed: BigInt(claimed), charged: BigInt(charged) }
        return { ...sums, isWithdrawing: withdrawal !== null }
      })
    },
  }
}

function added(
  channel: StoredSellerChannel,
  process: string,
  { perPeerMax, max }: { perPeerMax: number; max: number },
): Query<'added' | 'full' | 'known'> {
  const { id, network, config, peerId, createdAt } = channel
  return steps(function* () {
    yield* lock('seller_channels')
    const count = one<{ n: number; of_peer: number }>(COUNT, peerId)
    const isFull = count.map((row) => row!.n >= max || row!.of_peer >= perPeerMax)
    const [, isFullNow] = yield* together(run(PURGE_EMPTY, createdAt - EMPTY_KEPT_MS), isFull)
    const purge = run(PURGE_IDLE, createdAt - IDLE_KEPT_MS, peerId, max)
    if (isFullNow && (yield* together(purge, isFull))[1]) return 'full'
    const first = [toBytes(id), network, JSON.stringify(config), process, createdAt, peerId]
    return (yield* run(INSERT, ...first, ...changing(channel))) === 1 ? 'added' : 'known'
  })
}

/** Values in the order of `CHANGING`. */
function changing(channel: StoredSellerChannel): Value[] {
  const { onChain, seenAt, best, charged, seq, refund, owedSince, usedAt } = channel
  const { balance, totalClaimed, withdrawal, refundNonce } = onChain
  return [
    balance.toString(),
    totalClaimed.toString(),
    withdrawal?.amount.toString() ?? null,
    withdrawal?.initiatedAt ?? null,
    refundNonce.toString(),
    seenAt,
    best?.maxClaimableAmount.toString() ?? null,
    best === undefined ? null : toBytes(best.signature),
    charged.toString(),
    seq,
    refund?.amount.toString() ?? null,
    refund?.nonce.toString() ?? null,
    owedSince ?? null,
    usedAt,
  ]
}

function fromRow(row: ChannelRow): StoredSellerChannel {
  const id = toHex(row.id)
  const { withdrawal, ceiling, signature, signed_refund: refund, signed_refund_nonce: nonce } = row
  return {
    id,
    network: row.network,
    config: ChannelConfig.parse(JSON.parse(row.config)),
    peerId: row.peer_id,
    onChain: {
      balance: BigInt(row.balance),
      totalClaimed: BigInt(row.claimed),
      withdrawal:
        withdrawal === null ? undefined : { amount: BigInt(withdrawal), initiatedAt: row.withdrawal_at_s ?? 0 },
      refundNonce: BigInt(row.refund_nonce),
    },
    seenAt: row.seen_at,
    best:
      ceiling === null || signature === null
        ? undefined
        : { channelId: id, maxClaimableAmount: BigInt(ceiling), signature: toHex(signature) },
    charged: BigInt(row.charged),
    seq: row.seq,
    refund: refund === null || nonce === null ? undefined : { nonce: BigInt(nonce), amount: BigInt(refund) },
    owedSince: row.owed_since ?? undefined,
    createdAt: row.created_at,
    usedAt: row.used_at,
  }
}
