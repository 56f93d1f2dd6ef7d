import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import type { SignedReceipt } from '../schema/receipt.ts'
import { AUTHORIZATION_COLUMNS, AUTHORIZATION_PLACES, authorizationValues } from './authorization-row.ts'
import type { Database } from './database.ts'
import { type NewExchange, recordExchange } from './exchanges.ts'
import { toBytes } from './hex.ts'
import { type StoredLosses, storedLosses } from './losses.ts'
import {
  type Claim,
  type PaymentRow,
  type PaymentState,
  type StoredPayment,
  toPayment,
  WORK_DONE,
} from './payment-row.ts'
import { packReceipt } from './receipt-row.ts'
import { noteRevision } from './revisions.ts'
import { type SettledLooks, settledLooks } from './settled-looks.ts'
import { runOnSqlite } from './sqlite-query.ts'
import { refundPurpose } from './transactions.ts'

export type { Claim, PaymentState, StoredPayment } from './payment-row.ts'

/** The fields that change between the states of a payment. */
export type PaymentProgress = {
  id: Hex
  state: PaymentState
  attempts?: number
  nextAttemptAt?: UnixMs
  unclear?: boolean
  /** For a payment that is given up: true if the payer is at fault (D45). */
  blamed?: boolean
  txHash?: Hex | undefined
  error?: string | undefined
  /** When to look up a settled payment on chain again. */
  lookAt?: UnixMs | undefined
}

/** The seller's ledger: every payment ever accepted, by payment id. */
export interface Payments extends SettledLooks<StoredPayment> {
  /** Stores a payment unless its authorization or challenge was seen before. Durable when it resolves. */
  claim(claim: Claim, now: UnixMs): Promise<boolean>
  /** Stores the answer of the agent together with the next state. Durable when it resolves. */
  deliver(progress: PaymentProgress, exchange: NewExchange, now: UnixMs): Promise<void>
  /** Stores a settlement step. Durable when it resolves, after a short wait to share a commit. */
  save(progress: PaymentProgress, now: UnixMs): Promise<void>
  /** Puts a given-up payment back into the outbox. False: its state has changed, or its work was not done. */
  reopen(progress: PaymentProgress, now: UnixMs): Promise<boolean>
  /** Makes an owed payment due. */
  hastenOne(id: Hex, now: UnixMs): Promise<boolean>
  /** Notes the refund of a settled payment. Durable when it resolves. */
  paidBack(id: Hex, txHash: Hex, now: UnixMs): Promise<void>
  /** True if a refund transaction was signed and may have been mined. */
  isBeingPaidBack(id: Hex): boolean
  get(id: Hex): StoredPayment | undefined
  /** True if a payment has ever consumed this challenge, also before a restart. */
  challengeConsumed(challengeNonce: Hex): boolean
  /** True if this authorization was accepted before, even in a payment with other contents (D30). */
  authorizationSeen(network: string, asset: string, from: string, authorizationNonce: string): boolean
  /**
   * Owed payments that are due, longest overdue first. Rows written in the future are due too: the clock was set back.
   */
  due(now: UnixMs, limit: number): StoredPayment[]
  nextDueAt(): UnixMs | undefined
  /** Makes every owed payment due, because after a restart no attempt is running. */
  hasten(now: UnixMs): Promise<void>
  /** Voids payments whose run was interrupted by the end of the node: the work is gone and nobody is charged. */
  voidRunning(error: string, now: UnixMs): Promise<number>
  /** Work done for owed payments, including those with a transaction that the facilitator named (D50). */
  open(): { id: Hex; peerId: string; payer: Hex; amount: bigint }[]
  /** Work never paid since `since`: sums by slot of time, and payers, latest last. */
  lost(since: UnixMs, options: { slotMs: number; payersMax: number }): StoredLosses
  /** The number of owed payments, and of those that will never be paid. */
  counts(): { owed: number; unsettled: number }
  /** When the oldest owed payment was accepted. */
  oldestOwed(): UnixMs | undefined
}

/** A row written further in the future than this was written before the clock was set back. */
const SET_BACK_MS = 60_000

const INSERT = `
  INSERT INTO payments
    (id, state, agent_id, peer_id, correlation_id, challenge_nonce, ${AUTHORIZATION_COLUMNS}, task, created_at, updated_at)
  VALUES (?, 'authorized', ?, ?, ?, ?, ${AUTHORIZATION_PLACES}, ?, ?, ?) ON CONFLICT DO NOTHING`
const UPDATE = `
  UPDATE payments SET state = ?, attempts = coalesce(?, attempts), next_attempt_at = ?, unclear = ?, tx_hash = ?,
    error = ?, receipt = coalesce(?, receipt), exchange_id = coalesce(exchange_id, ?), look_at = ?, blamed = ?, updated_at = ?
  WHERE id = ? AND state IN ('authorized', 'owed')`

const REOPEN = `
  UPDATE payments SET state = 'owed', attempts = ?, next_attempt_at = ?, unclear = ?, updated_at = ?
  WHERE id = ? AND state = 'unsettled' AND ${WORK_DONE}`

const FORGET_TASK = `UPDATE payments SET task = '' WHERE id = ? AND state = 'unsettled' AND task IS NOT NULL`

/** A refunded payment is final: the chain is not asked again. */
const PAY_BACK = `UPDATE payments SET refund_tx = ?, look_at = NULL, updated_at = ? WHERE id = ? AND refund_tx IS NULL`

const PAYING_BACK = `SELECT 1 FROM chain_transactions WHERE purpose = ? AND state IN ('sent', 'mined')`

/** Worded like the index of open payments, so that SQLite uses it. */
const OWED = `state IN ('authorized', 'owed') AND state = 'owed'`
const VOID_RUNNING = `
  UPDATE payments SET state = 'voided', error = ?, updated_at = ?
  WHERE state IN ('authorized', 'owed') AND state = 'authorized'`

const BY_CHALLENGE = `
  SELECT 1 FROM payments WHERE authorization_nonce = ? AND challenge_nonce = authorization_nonce
  UNION ALL
  SELECT 1 FROM payments WHERE challenge_nonce = ? AND challenge_nonce <> authorization_nonce`
const BY_AUTHORIZATION = `
  SELECT 1 FROM payments
  WHERE authorization_nonce = ? AND payer = ? COLLATE NOCASE AND asset = ? COLLATE NOCASE AND network = ?`

export function createPayments(database: Database): Payments {
  const write = (progress: PaymentProgress, now: UnixMs, receipt?: SignedReceipt, exchangeId?: number | bigint) => {
    database
      .prepare(UPDATE)
      .run(
        progress.state,
        progress.attempts ?? null,
        progress.nextAttemptAt ?? null,
        progress.unclear === true ? 1 : 0,
        progress.txHash === undefined ? null : toBytes(progress.txHash),
        progress.error ?? null,
        receipt === undefined ? null : packReceipt(receipt),
        exchangeId ?? null,
        progress.lookAt ?? null,
        progress.blamed === true ? 1 : null,
        now,
        toBytes(progress.id),
      )
    if (progress.state === 'unsettled') database.run(FORGET_TASK, toBytes(progress.id))
  }
  const rows = (sql: string, ...values: (Uint8Array | number)[]) =>
    database.all<PaymentRow>(sql, ...values).map(toPayment)

  const challengeConsumed = (challengeNonce: Hex) => {
    const nonce = toBytes(challengeNonce)
    return database.one(BY_CHALLENGE, nonce, nonce) !== undefined
  }
  const first = (column: 'next_attempt_at' | 'created_at') =>
    database.one<{ at: number | null }>(`SELECT min(${column}) AS at FROM payments WHERE ${OWED}`)!.at ?? undefined
  const count = (where: string) => database.one<{ n: number }>(`SELECT count(*) AS n FROM payments WHERE ${where}`)!.n

  return {
    ...settledLooks(database, toPayment),
    claim: (claim, now) =>
      database.write(() => {
        const { challengeNonce } = claim
        if (challengeNonce !== undefined && challengeConsumed(challengeNonce)) return false
        const { changes } = database
          .prepare(INSERT)
          .run(
            toBytes(claim.id),
            claim.agentId,
            claim.peerId,
            claim.correlationId,
            challengeNonce === undefined ? null : toBytes(challengeNonce),
            ...authorizationValues(claim.requirements, claim.signed),
            claim.task ?? null,
            now,
            now,
          )
        return changes === 1
      }),
    deliver: (progress, exchange, now) =>
      database.write(() => {
        write(progress, now, exchange.receipt, recordExchange(database, exchange))
      }),
    save: (progress, now) =>
      database.writeLater(() => {
        write(progress, now)
      }),
    reopen: (progress, now) =>
      database.write(() => {
        runOnSqlite(database.prepare, noteRevision())
        const { id, attempts = 0, nextAttemptAt = now, unclear = true } = progress
        return database.run(REOPEN, attempts, nextAttemptAt, unclear ? 1 : 0, now, toBytes(id)).changes === 1
      }),
    hastenOne: (id, now) =>
      database.write(
        () =>
          database.run(
            `UPDATE payments SET next_attempt_at = ?, updated_at = ? WHERE id = ? AND state = 'owed'`,
            now,
            now,
            toBytes(id),
          ).changes === 1,
      ),
    paidBack: (id, txHash, now) => database.writeOne(PAY_BACK, toBytes(txHash), now, toBytes(id)),
    isBeingPaidBack: (id) => database.one(PAYING_BACK, refundPurpose(id)) !== undefined,
    get: (id) => rows('SELECT * FROM payments WHERE id = ?', toBytes(id))[0],
    challengeConsumed,
    authorizationSeen: (network, asset, from, nonce) =>
      database.one(BY_AUTHORIZATION, toBytes(nonce), from, asset, network) !== undefined,
    due: (now, limit) =>
      rows(
        `SELECT * FROM payments WHERE ${OWED} AND (next_attempt_at <= ? OR updated_at > ?)
           ORDER BY next_attempt_at LIMIT ?`,
        now,
        now + SET_BACK_MS,
        limit,
      ),
    nextDueAt: () => first('next_attempt_at'),
    hasten: (now) =>
      database.writeOne(`UPDATE payments SET next_attempt_at = ? WHERE ${OWED} AND next_attempt_at > ?`, now, now),
    voidRunning: (error, now) => database.write(() => Number(database.run(VOID_RUNNING, error, now).changes)),
    oldestOwed: () => first('created_at'),
    open: () =>
      rows(`SELECT * FROM payments WHERE ${OWED} AND ${WORK_DONE}`).map(({ id, peerId, signed, requirements }) => ({
        id,
        peerId,
        payer: signed.authorization.from,
        amount: requirements.amount,
      })),
    lost: (since, options) => storedLosses(database, since, options),
    counts: () => ({ owed: count(OWED), unsettled: count(`state = 'unsettled' AND exchange_id IS NOT NULL`) }),
  }
}
