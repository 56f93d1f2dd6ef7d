import type { UnixMs } from '../lib/clock.ts'
import type { ChannelConfig } from '../schema/channel.ts'
import type { Page } from '../schema/page.ts'
import type { PaymentRequirements, SignedAuthorization } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import type { SignedReceipt } from '../schema/receipt.ts'
import type { Direction } from '../schema/receipt-record.ts'
import type { WebOrder } from '../schema/web-purchase.ts'
import { type AuthorizationRow, authorizationOf } from './authorization-row.ts'
import { toBytes, toHex } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { type Metered, unpackMetered } from './metered-row.ts'
import { all, nothing, one, type Query, together, type Value } from './query.ts'
import { unpackReceipt } from './receipt-row.ts'

/** A receipt that this node gave (`in`) or received (`out`), with its payment. */
export type StoredReceipt = {
  direction: Direction
  paymentId: Hex
  agentId: string
  /** libp2p peer of the other side. */
  peerId: string
  requirements: PaymentRequirements
  payer: string
  /** Undefined: a channel paid. */
  signed: SignedAuthorization | undefined
  /** The call that the channel paid. `config`: its terms, as long as the channel is kept. */
  channel?: { id: Hex; correlationId: string; config: ChannelConfig | undefined } | undefined
  txHash: Hex | undefined
  receipt: SignedReceipt | undefined
  /** What a call of a metered agent has used. */
  metered?: Metered | undefined
  /** Why there is no receipt: '' if the seller sent none. */
  note: string | undefined
  createdAt: UnixMs
}

export type ReceiptsQuery = {
  /** Only receipts for orders of this token. */
  ownerId?: string | undefined
  direction?: Direction | undefined
  agentId?: string | undefined
  limit: number
  cursor?: string | undefined
}

/** Reads the receipts of both ledgers. payments.ts and purchases.ts write them. */
export interface ReceiptStore {
  get(paymentId: string, ownerId?: string | undefined): Promise<StoredReceipt | undefined>
  /** What was bought over HTTP by a payment. Undefined: it was not. */
  webOf(paymentId: Hex): Promise<WebOrder | undefined>
  /** Newest first. */
  list(query: ReceiptsQuery): Promise<Page<StoredReceipt>>
}

type LedgerReceiptRow = {
  no: number
  payment_id: Uint8Array
  agent_id: string
  peer_id: string
  tx_hash: Uint8Array | null
  receipt: Uint8Array | null
  receipt_note: string | null
  correlation_id: string | null
  channel_id: Uint8Array | string | null
  channel_config: string | null
  metered: string | null
  created_at: number
} & AuthorizationRow

/** Each ledger in the same columns, limited to rows with a receipt or a note. */
const ledgers = {
  in: {
    rows: `
      SELECT *, id AS payment_id, NULL AS receipt_note, channel AS channel_id,
        (SELECT c.config FROM seller_channels c WHERE c.id = payments.channel) AS channel_config
      FROM payments WHERE receipt IS NOT NULL`,
    no: 'no',
    id: 'id',
  },
  out: {
    rows: `
      SELECT *, order_no AS no, seller_id AS peer_id,
        (SELECT o.correlation_id FROM orders o WHERE o.no = order_no) AS correlation_id,
        (SELECT c.id FROM buyer_channels c WHERE c.no = authorizations.channel) AS channel_id,
        (SELECT c.config FROM buyer_channels c WHERE c.no = authorizations.channel) AS channel_config
      FROM authorizations
      WHERE (receipt IS NOT NULL OR receipt_note IS NOT NULL)`,
    no: 'order_no',
    id: 'payment_id',
  },
} as const
const WEB = `
  SELECT o.web FROM authorizations a JOIN orders o ON o.no = a.order_no WHERE a.payment_id = ? AND o.web IS NOT NULL`
/** The cursor that starts at the newest row. */
const NEWEST = 999_999_999_999_999

export function createReceiptStore(database: LedgerDatabase): ReceiptStore {
  return {
    async get(paymentId, ownerId) {
      if (!/^0x[0-9a-fA-F]{64}$/.test(paymentId)) return undefined
      const own = given(ownerId)
      const side = (direction: Direction) =>
        sidesOf(ownerId).includes(direction)
          ? matches(
              direction,
              `AND ${ledgers[direction].id} = ? ${ownedBy(ownerId)} LIMIT 1`,
              toBytes(paymentId),
              ...own,
            )
          : nothing([])
      const [found] = (await database.query(together(side('in'), side('out')))).flat()
      return found && toReceipt(found)
    },
    async webOf(paymentId) {
      const row = await database.query(one<{ web: string }>(WEB, toBytes(paymentId)))
      return row && (JSON.parse(row.web) as WebOrder)
    },
    async list({ direction, agentId, ownerId, limit, cursor }) {
      const [noIn = NEWEST, noOut = NEWEST] = cursor?.split('.').map(Number) ?? []
      const places = { in: noIn, out: noOut }
      const page = (side: Direction) => {
        if ((direction !== undefined && direction !== side) || !sidesOf(ownerId).includes(side)) return nothing([])
        const { no } = ledgers[side]
        const ofAgent = agentId === undefined ? '' : 'AND agent_id = ?'
        const values = [...given(ownerId), places[side], ...(agentId === undefined ? [] : [agentId]), limit + 1]
        return matches(side, `${ownedBy(ownerId)} AND ${no} < ? ${ofAgent} ORDER BY ${no} DESC LIMIT ?`, ...values)
      }
      const found = merged(...(await database.query(together(page('in'), page('out')))))
      const shown = found.slice(0, limit)
      for (const { direction: side, row } of shown) places[side] = row.no
      return { items: shown.map(toReceipt), next: found.length > limit ? `${places.in}.${places.out}` : undefined }
    },
  }
}

function matches(direction: Direction, more: string, ...values: Value[]): Query<ReceiptMatch[]> {
  const found = all<LedgerReceiptRow>(`${ledgers[direction].rows} ${more}`, ...values)
  return found.map((rows) => rows.map((row) => ({ direction, row })))
}

/** Tokens only receive receipts and never give any. */
function sidesOf(ownerId: string | undefined): readonly Direction[] {
  return ownerId === undefined ? ['in', 'out'] : ['out']
}
function ownedBy(ownerId: string | undefined): string {
  return ownerId === undefined ? '' : 'AND order_no IN (SELECT no FROM orders WHERE token_id = ?)'
}
function given(ownerId: string | undefined): string[] {
  return ownerId === undefined ? [] : [ownerId]
}

type ReceiptMatch = { direction: Direction; row: LedgerReceiptRow }

/** Merges both lists, newer first. Each list keeps its own order, because its cursor relies on it. */
function merged(left: ReceiptMatch[], right: ReceiptMatch[]): ReceiptMatch[] {
  const found: ReceiptMatch[] = []
  let [l, r] = [0, 0]
  while (l < left.length || r < right.length) {
    const [a, b] = [left[l], right[r]]
    if (b === undefined || (a !== undefined && a.row.created_at >= b.row.created_at)) found.push(left[l++]!)
    else found.push(right[r++]!)
  }
  return found
}

function toReceipt({ direction, row }: ReceiptMatch): StoredReceipt {
  const paymentId = toHex(row.payment_id)
  return {
    direction,
    paymentId,
    agentId: row.agent_id,
    peerId: row.peer_id,
    ...paidBy(row),
    txHash: row.tx_hash === null ? undefined : toHex(row.tx_hash),
    receipt: row.receipt === null ? undefined : unpackReceipt(row.receipt, paymentId, row),
    note: row.receipt_note ?? undefined,
    metered: unpackMetered(row.metered),
    createdAt: row.created_at,
  }
}

/** A call on a channel has no authorization of its own. */
function paidBy(row: LedgerReceiptRow): Pick<StoredReceipt, 'requirements' | 'signed' | 'channel' | 'payer'> {
  const { requirements, signed } = authorizationOf(row)
  const { channel_id: channel, channel_config: config, correlation_id: correlationId, payer } = row
  if (channel === null) return { requirements, signed, payer }
  const id = typeof channel === 'string' ? (channel as Hex) : toHex(channel)
  const terms = config === null ? undefined : (JSON.parse(config) as ChannelConfig)
  return { requirements, signed: undefined, payer, channel: { id, correlationId: correlationId ?? '', config: terms } }
}
