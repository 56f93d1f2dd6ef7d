import type { UnixMs } from '../lib/clock.ts'
import type { Book } from '../schema/book.ts'
import { a2aCaller, localCaller, ownerOfCaller } from '../schema/caller.ts'
import { RUN_CANCELED } from '../schema/limits.ts'
import type { Page } from '../schema/page.ts'
import type { Hex } from '../schema/primitives.ts'
import { BOOK_ROWS } from './book-rows.ts'
import { MAY_BE_HELD } from './held.ts'
import { toBytes, toHex } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { beginningOf, isSearch, type LookBackQuery, lookBack } from './look-back.ts'
import { type LedgerDirection, type LedgerState, type PaymentFacts, paymentFacts } from './payment-facts.ts'
import { type PaymentRow, toPayment } from './payment-row.ts'
import type { StoredPayment } from './payments.ts'
import { all, nothing, one, type Query, steps, together, type Value } from './query.ts'
import { type RowLength, readLongPage } from './read-page.ts'
import { RESERVATIONS, type ReservationRow, type StoredReservation, toReservation } from './reservation-row.ts'
import { revisions } from './revisions.ts'
import type { RowOf } from './row.ts'

/** A payment of either direction. `no` rises in the order of creation, per direction. */
export type LedgerEntry = { no: number; createdAt: UnixMs } & (
  | { direction: 'in'; payment: StoredPayment }
  | { direction: 'out'; made: StoredReservation }
)

export type StoredExecution = {
  id: number
  agentId: string
  callerId: string
  correlationId: string
  input: string
  output: string | undefined
  error: string | undefined
  paymentId: Hex | undefined
  createdAt: UnixMs
  durationMs: number
}

export type LedgerQuery = {
  direction?: LedgerDirection | undefined
  /** States of incoming and of outgoing payments: each direction has its own names. */
  states?: { in: readonly LedgerState[]; out: readonly LedgerState[] } | undefined
  /** If `spent` is among the states: what is known about the transaction. */
  transaction?: 'confirmed' | 'claimed' | 'none' | undefined
  book?: Book | undefined
  /** Only payments for orders of this token. */
  ownerId?: string | undefined
  limit: number
  cursor?: string | undefined
}

/** With `ownerId`, only executions that this token requested. */
export type ExecutionsQuery = {
  agentId?: string | undefined
  ownerId?: string | undefined
  /** True: only failed ones. False: only those that did not fail. */
  failed?: boolean | undefined
  limit: number
  cursor?: string | undefined
} & LookBackQuery

export type ExecutionFact = {
  no: number
  agentId: string
  failed: boolean
  createdAt: UnixMs
  durationMs: number
  owner?: string | undefined
}

/** Reads over both ledgers, the seller's and the buyer's, and over the executions of own agents. */
export interface LedgerReader extends PaymentFacts {
  /** Newest first, both directions merged by time. */
  payments(query: LedgerQuery): Promise<Page<LedgerEntry>>
  payment(id: Hex): Promise<LedgerEntry | undefined>
  /** Newest first. A page ends early if its texts are long, and a search page ends after a fixed number of rows. */
  executions(query: ExecutionsQuery): Promise<Page<StoredExecution>>
  execution(id: number): Promise<StoredExecution | undefined>
  /** The oldest `limit` rows after number `after`. */
  executionFacts(after: number, limit: number): Promise<ExecutionFact[]>
  /** Rises when a payment that counted as final has changed. */
  revisions(): Promise<number>
}

const SELECT = { in: 'SELECT * FROM payments', out: RESERVATIONS } as const
const NUMBER = { in: 'no', out: 'a.order_no' } as const
const STATE = { in: 'state', out: 'a.state' } as const
const ID = { in: 'id', out: 'a.payment_id' } as const
/** Newest first, as they lie: by the index of sessions SQLite would read all texts of an agent, to sort them. */
const LENGTHS =
  'SELECT e.id AS no, octet_length(e.input) + coalesce(octet_length(e.output), 0) AS length FROM exchanges e NOT INDEXED'
const EXECUTIONS = `
  SELECT e.id, e.agent_id AS agentId, e.caller_id AS callerId, e.correlation_id AS correlationId, e.input, e.output, e.error,
    p.id AS paymentId, e.created_at AS createdAt, e.duration_ms AS durationMs
  FROM exchanges e NOT INDEXED LEFT JOIN payments p ON p.no = e.payment_no`
/** A run that its caller canceled has an error, and did not fail. */
const FAILED = (of: string) => `(${of}error IS NOT NULL AND ${of}error <> '${RUN_CANCELED}')`
const EXECUTION_FACTS = `
  SELECT id AS no, agent_id AS agentId, caller_id AS callerId, ${FAILED('')} AS failed, created_at AS createdAt,
    duration_ms AS durationMs
  FROM exchanges WHERE id > ? ORDER BY id LIMIT ?`
/** Executions requested by one token, over this API or over A2A. */
const OWNED = '(e.caller_id = ? OR substr(e.caller_id, 1, ?) = ?)'
const EXCHANGES = {
  ...{ table: 'exchanges e', key: 'e.id', agentId: 'e.agent_id', createdAt: 'e.created_at' },
  texts: [beginningOf('e.input'), beginningOf('e.output'), 'e.error', 'e.agent_id'],
} as const
const NEWEST = Number.MAX_SAFE_INTEGER

type ExecutionFactRow = RowOf<Omit<ExecutionFact, 'failed' | 'owner'>> & { failed: number; callerId: string }
type ExecutionRow = RowOf<StoredExecution>

const TRANSACTION = {
  confirmed: 'a.confirmed_at IS NOT NULL',
  claimed: 'a.confirmed_at IS NULL AND a.tx_hash IS NOT NULL',
  none: 'a.confirmed_at IS NULL AND a.tx_hash IS NULL',
} as const

/** @param options `hasChain`: true if this node can ask the chain about payments; `network`: the network to sum up */
export function createLedgerReader(
  database: LedgerDatabase,
  { hasChain = true, network }: { hasChain?: boolean; network?: string } = {},
): LedgerReader {
  function entries(direction: LedgerDirection, sql: string, ...values: Value[]): Query<LedgerEntry[]> {
    if (direction === 'in') return all<PaymentRow>(sql, ...values).map((rows) => rows.map(received))
    return all<ReservationRow>(sql, ...values).map((rows) => rows.map((row) => made(row, hasChain)))
  }

  function newest(direction: LedgerDirection, before: number, query: LedgerQuery): Query<LedgerEntry[]> {
    const { states, transaction, book, ownerId, limit } = query
    const wanted = states?.[direction]
    const inBook = book === undefined ? 'TRUE' : BOOK_ROWS[book][direction]
    const isOther = query.direction !== undefined && query.direction !== direction
    const isNobodys = ownerId !== undefined && direction === 'in'
    if (isOther || isNobodys || wanted?.length === 0 || inBook === undefined) return nothing([])
    const inStates = wanted === undefined ? '' : `AND ${STATE[direction]} IN (${wanted.map(() => '?').join(', ')})`
    const settled = direction === 'in' || transaction === undefined ? '' : `AND ${TRANSACTION[transaction]}`
    const isUnconfirmed = settled !== '' && transaction !== 'confirmed' && wanted?.join() === 'spent'
    const indexed = isUnconfirmed ? `AND ${MAY_BE_HELD}` : ''
    const owned = ownerId === undefined ? '' : 'AND o.token_id = ?'
    const number = NUMBER[direction]
    const sql = `${SELECT[direction]} WHERE ${number} < ? ${inStates} ${settled} ${indexed} AND (${inBook}) ${owned}
      ORDER BY ${number} DESC LIMIT ?`
    return entries(direction, sql, before, ...(wanted ?? []), ...(ownerId === undefined ? [] : [ownerId]), limit + 1)
  }

  async function payments(query: LedgerQuery): Promise<Page<LedgerEntry>> {
    const [beforeIn, beforeOut] = positions(query.cursor)
    const sides = together(newest('in', beforeIn, query), newest('out', beforeOut, query))
    const [ins, outs] = await database.query(sides)
    const items: LedgerEntry[] = []
    let [i, o] = [0, 0]
    while (items.length < query.limit && (i < ins.length || o < outs.length)) {
      const isIn = o >= outs.length || (i < ins.length && ins[i]!.createdAt >= outs[o]!.createdAt)
      items.push(isIn ? ins[i++]! : outs[o++]!)
    }
    if (i === ins.length && o === outs.length) return { items, next: undefined }
    return { items, next: `${ins[i - 1]?.no ?? beforeIn}.${outs[o - 1]?.no ?? beforeOut}` }
  }

  return {
    payments,
    async payment(id) {
      const side = (direction: LedgerDirection) =>
        entries(direction, `${SELECT[direction]} WHERE ${ID[direction]} = ?`, toBytes(id))
      return (await database.query(together(side('in'), side('out')))).flat()[0]
    },
    executions: (query) => database.query(executions(query)),
    async execution(id) {
      const row = await database.query(one<ExecutionRow>(`${EXECUTIONS} WHERE e.id = ?`, id))
      return row && toExecution(row)
    },
    ...paymentFacts(database, network),
    revisions: () => database.query(revisions()),
    async executionFacts(after, limit) {
      const rows = await database.query(all<ExecutionFactRow>(EXECUTION_FACTS, after, limit))
      return rows.map(({ no, agentId, callerId, failed, createdAt, durationMs }) => {
        return { no, agentId, failed: failed === 1, createdAt, durationMs, owner: ownerOfCaller(callerId) }
      })
    },
  }
}

function executions({ agentId, ownerId, failed, limit, cursor, ...sought }: ExecutionsQuery) {
  const before = cursor === undefined ? NEWEST : Number(cursor)
  // No index covers the caller of an execution.
  const isSought = failed !== undefined || ownerId !== undefined || isSearch(sought)
  const own = ownerId === undefined ? undefined : a2aCaller(ownerId, '')
  return steps(function* () {
    const found = isSought ? yield* lookBack(EXCHANGES, sought, before) : { terms: [], values: [], floor: undefined }
    const where = [
      'e.id < ?',
      ...(agentId === undefined ? [] : ['e.agent_id = ?']),
      ...(own === undefined ? [] : [OWNED]),
      ...(failed === undefined ? [] : [failed ? FAILED('e.') : `NOT ${FAILED('e.')}`]),
      ...found.terms,
    ]
    const values = [
      before,
      ...(agentId === undefined ? [] : [agentId]),
      ...(own === undefined ? [] : [localCaller(ownerId), own.length, own]),
      ...found.values,
    ]
    const newest = `WHERE ${where.join(' AND ')} ORDER BY e.id DESC LIMIT ?`
    const page = yield* readLongPage(
      limit,
      (count) => all<RowLength>(`${LENGTHS} ${newest}`, ...values, count),
      (count) => all<ExecutionRow>(`${EXECUTIONS} ${newest}`, ...values, count),
    )
    return { items: page.items.map(toExecution), next: page.next ?? found.floor?.toString() }
  })
}

/** The numbers before which the page continues, for incoming and for outgoing payments. */
function positions(cursor: string | undefined): [number, number] {
  if (cursor === undefined) return [NEWEST, NEWEST]
  const [received, made] = cursor.split('.').map(Number)
  return [received!, made!]
}

function received(row: PaymentRow): LedgerEntry {
  return { direction: 'in', no: row.no, createdAt: row.created_at, payment: toPayment(row) }
}

function made(row: ReservationRow, hasChain: boolean): LedgerEntry {
  return { direction: 'out', no: row.order_no, createdAt: row.created_at, made: toReservation(row, hasChain) }
}

function toExecution(row: ExecutionRow): StoredExecution {
  return {
    ...row,
    output: row.output ?? undefined,
    error: row.error ?? undefined,
    paymentId: row.paymentId === null ? undefined : toHex(row.paymentId),
  }
}
