import { randomInt } from 'node:crypto'
import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import { toBytes, toHex } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { LEFT_BEHIND } from './ownership.ts'
import type { Claim } from './payment-row.ts'
import { all, one, type Query, steps, together } from './query.ts'
import { StoreError } from './store-error.ts'

/** Work that has not settled: of one payer and of all, in atomic units. */
export type Exposed = {
  payer: bigint
  total: bigint
  /** The number of such payments, of all payers. */
  payments: number
  /** Rises when a process notes that a loss came or went. */
  losses: number
}

/**
 * Counts work that has not settled, for all processes of a ledger.
 *
 * The table `exposure` has one sum for each payer and one for all. A payment is in the sums while its column `counted`
 * is above 0, and both change in one transaction. A claim raises the sums, so of claims at once none overlooks another.
 * Payments that have ended are taken off later, many at a time (`recount`). What is read leaves them out (`exposed`).
 */
export interface ExposedPayments {
  /** Like `claim`, for a payment whose agent runs before it settles. @returns the sums with it, or undefined */
  claimExposed(claim: Claim, now: UnixMs): Promise<Exposed | undefined>
  exposed(payer: string): Promise<Exposed>
  /** The ids of all payments whose work has not settled. */
  exposedIds(): Promise<Hex[]>
  /** Brings the sums up to date with what ended here or was left behind, at most some hundred payments. */
  recount(): Promise<Recount>
}

/** `noted`: how much `losses` rose. */
type Recount = { isAll: boolean; noted: number; losses: number }

/** Payments that one transaction takes off. */
const RECOUNT_MAX = 500
/** `counted` of a payment that a recount has added. A claim takes a higher number. */
const BY_RECOUNT = 1

/** A run is under way or was done, and the payment has not settled. */
const EXPOSED = `state IN ('authorized', 'owed') AND (task IS NULL OR exchange_id IS NOT NULL)`
/** Worded like the index of such payments, so that SQLite uses it. */
const MISCOUNTED = `((counted > 0 AND NOT (${EXPOSED})) OR (counted = 0 AND ${EXPOSED}))`

const ADDED = `
  amount = exposure.amount + excluded.amount, payments = exposure.payments + excluded.payments,
  losses = exposure.losses + excluded.losses`
const SUM_ROW = 'payer, CAST(amount AS TEXT) AS amount, payments, losses'
/** The sum of all comes first: each change waits for it before it locks another sum, so none can deadlock. */
const RAISE = `
  INSERT INTO exposure (payer, amount, payments, losses)
  SELECT claimed.payer, claimed.amount, 1, 0
  FROM (
    SELECT '' AS payer, amount FROM payments WHERE id = ? AND counted = ?
    UNION ALL SELECT lower(payer), amount FROM payments WHERE id = ? AND counted = ?) AS claimed
  WHERE claimed.amount >= 0
  ON CONFLICT (payer) DO UPDATE SET ${ADDED} RETURNING ${SUM_ROW}`
const ADD = `
  INSERT INTO exposure (payer, amount, payments, losses) VALUES (?, ?, ?, ?)
  ON CONFLICT (payer) DO UPDATE SET ${ADDED} RETURNING ${SUM_ROW}`
const FORGET = "DELETE FROM exposure WHERE payer = ? AND payer <> '' AND payments = 0"

const RIGHTED = `
  CASE WHEN counted > 0 THEN -amount ELSE amount END AS amount, CASE WHEN counted > 0 THEN -1 ELSE 1 END AS payments`
const SUMS = `
  SELECT payer, CAST(sum(amount) AS TEXT) AS amount, CAST(sum(payments) AS INTEGER) AS payments, max(losses) AS losses
  FROM (
    SELECT payer, amount, payments, losses FROM exposure WHERE payer IN ('', ?1)
    UNION ALL SELECT '', ${RIGHTED}, 0 FROM payments INDEXED BY payments_miscounted WHERE ${MISCOUNTED}
    UNION ALL SELECT CAST(?1 AS TEXT), ${RIGHTED}, 0 FROM payments INDEXED BY payments_miscounted
      WHERE ${MISCOUNTED} AND lower(payer) = ?1) AS sums
  GROUP BY payer`
const CLAIMED_BY = 'SELECT 1 FROM payments WHERE id = ? AND counted = ?'
const IDS = `SELECT id FROM payments INDEXED BY payments_open WHERE ${EXPOSED}`

/**
 * Each process recounts its own payments, so that it waits for no row of another one while others wait for the sums. The
 * condition is said twice: another process may have counted a payment that was left behind.
 */
const RECOUNT = `
  UPDATE payments SET counted = CASE WHEN counted > 0 THEN 0 ELSE ${BY_RECOUNT} END
  WHERE ${MISCOUNTED} AND no IN (
    SELECT no FROM payments INDEXED BY payments_miscounted WHERE ${MISCOUNTED} AND (owner = ? OR ${LEFT_BEHIND})
    ORDER BY no LIMIT ${RECOUNT_MAX})
  RETURNING lower(payer) AS payer, CAST(amount AS TEXT) AS amount, counted, state`

type ExposedRow = { payer: string; amount: string; payments: number; losses: number }
type RecountedRow = { payer: string; amount: string; counted: number; state: string }
type SumChange = { amount: bigint; payments: number }

/** @param insert the claim itself, which stores `counted` */
export function exposedPayments(
  database: LedgerDatabase,
  insert: (claim: Claim, values: { process: string; now: UnixMs; counted: number }) => Query<number>,
): ExposedPayments {
  const { process } = database
  const exposed = async (payer: string) =>
    exposedIn(await database.query(all<ExposedRow>(SUMS, payer.toLowerCase())), payer)
  return {
    async claimExposed(claim, now) {
      // A claim of the same payment may be stored. The number tells the payment that this very claim has stored.
      const counted = randomInt(BY_RECOUNT + 1, 2 ** 47)
      const id = toBytes(claim.id)
      const raise = all<ExposedRow>(RAISE, id, counted, id, counted)
      const claimed = together(insert(claim, { process, now, counted }), raise)
      const payer = claim.signed.authorization.from
      try {
        const [stored, rows] = await database.commit(claimed, { record: 'payment', id: claim.id })
        if (stored !== 1) return undefined
        // A payment that was claimed once more may be in the sums already.
        return rows.length === 0 ? await exposed(payer) : exposedIn(rows, payer)
      } catch (error) {
        if (!(error instanceof StoreError && error.code === 'STORE_IN_DOUBT')) throw error
        const isStored = await database.query(one(CLAIMED_BY, toBytes(claim.id), counted)).catch(() => undefined)
        // If it is not there, it may come yet.
        if (isStored === undefined) throw error
        return exposed(payer)
      }
    },
    exposed,
    exposedIds: async () => (await database.query(all<{ id: Uint8Array }>(IDS))).map(({ id }) => toHex(id)),
    recount: () => database.commitLater(recounted(process)),
  }
}

function exposedIn(rows: readonly ExposedRow[], payer: string): Exposed {
  const of = (sought: string) => rows.find((row) => row.payer === sought)
  const { amount = '0', payments = 0, losses = 0 } = of('') ?? {}
  return { payer: BigInt(of(payer.toLowerCase())?.amount ?? '0'), total: BigInt(amount), payments, losses }
}

function recounted(process: string): Query<Recount> {
  return steps(function* () {
    const rows = yield* all<RecountedRow>(RECOUNT, process)
    if (rows.length === 0) return { isAll: true, noted: 0, losses: 0 }
    const noted = rows.filter(({ counted, state }) => counted > 0 || state === 'unsettled').length
    const changes = [...changesOf(rows)].toSorted(([a], [b]) => (a < b ? -1 : 1))
    const raised = yield* together(
      ...changes.map(([payer, { amount, payments }]) =>
        all<ExposedRow>(ADD, payer, amount, payments, payer === '' ? noted : 0),
      ),
      ...changes.map(([payer]) => all<ExposedRow>(FORGET, payer)),
    )
    return { isAll: rows.length < RECOUNT_MAX, noted, losses: raised[0]![0]!.losses }
  })
}

function changesOf(rows: readonly RecountedRow[]): Map<string, SumChange> {
  const changes = new Map<string, SumChange>()
  for (const { payer, amount, counted } of rows) {
    const sign = counted > 0 ? 1 : -1
    for (const key of ['', payer]) {
      const { amount: sum, payments } = changes.get(key) ?? { amount: 0n, payments: 0 }
      changes.set(key, { amount: sum + BigInt(sign) * BigInt(amount), payments: payments + sign })
    }
  }
  return changes
}
