import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import { AUTHORIZATION_COLUMNS, AUTHORIZATION_PLACES, authorizationValues } from './authorization-row.ts'
import { type NewExchange, recordExchange } from './exchanges.ts'
import { type ExposedPayments, exposedPayments } from './exposed.ts'
import { toBytes } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { DEFERRED_MAX, takeOverPayments } from './left-payments.ts'
import { type StoredLosses, storedLosses } from './losses.ts'
import { type NamedTransactions, namedTransactions } from './named-transactions.ts'
import { LAST_EXCHANGE } from './new-ids.ts'
import { takingOver } from './ownership.ts'
import { type PaidRuns, paidRuns } from './paid-runs.ts'
import {
  type Claim,
  MAY_MOVE,
  type PaymentRow,
  type PaymentState,
  type StoredPayment,
  toPayment,
  WORK_DONE,
} from './payment-row.ts'
import { all, one, type Query, run, together, type Value } from './query.ts'
import { packReceipt } from './receipt-row.ts'
import { noteRevision } from './revisions.ts'
import { type SettledLooks, settledLooks } from './settled-looks.ts'
import { notedIfAny } from './shared-changes.ts'

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
export interface Payments extends SettledLooks<StoredPayment>, ExposedPayments, PaidRuns, NamedTransactions {
  /**
   * Stores a payment that settles before its agent runs, unless its authorization or challenge was seen before. Durable
   * when it resolves.
   */
  claim(claim: Claim, now: UnixMs): Promise<boolean>
  /** Stores the answer of the agent together with the next state. Durable when it resolves. */
  deliver(progress: PaymentProgress, exchange: NewExchange, now: UnixMs): Promise<void>
  /**
   * Stores a settlement step. Durable when it resolves, after a short wait to share a commit.
   *
   * @returns the payment, if this step gave it up
   */
  save(progress: PaymentProgress, now: UnixMs): Promise<StoredPayment | undefined>
  /** Puts a given-up payment back into the outbox. False: its state has changed, or its work was not done. */
  reopen(progress: PaymentProgress, now: UnixMs): Promise<boolean>
  /** Makes an owed payment due. */
  hastenOne(id: Hex, now: UnixMs): Promise<boolean>
  /** Notes the refund of a settled payment. Durable when it resolves. */
  paidBack(id: Hex, txHash: Hex, now: UnixMs): Promise<void>
  get(id: Hex): Promise<StoredPayment | undefined>
  /** True if a payment has ever consumed this challenge, also before a restart. */
  challengeConsumed(challengeNonce: Hex): Promise<boolean>
  /** True if this authorization was accepted before, even in a payment with other contents (D30). */
  authorizationSeen(network: string, asset: string, from: string, authorizationNonce: string): Promise<boolean>
  /**
   * Owed payments of this process that are due, longest overdue first. Rows written in the future are due too: the
   * clock was set back.
   */
  due(now: UnixMs, limit: number): Promise<StoredPayment[]>
  nextDueAt(): Promise<UnixMs | undefined>
  /** Makes every owed payment of this process due. */
  hasten(now: UnixMs): Promise<void>
  /**
   * Takes over what processes left that have ended. Payments whose run was interrupted are voided: the work is gone and
   * nobody is charged. Owed payments are due. Settled work is found by `Deferred.unrun`, also if its buyer got no answer
   * at all.
   *
   * @returns how many were voided
   */
  takeOver(error: string, now: UnixMs): Promise<number>
  /** Work done for owed payments, including those with a transaction that the facilitator named (D50). */
  open(): Promise<{ id: Hex; peerId: string; payer: Hex; amount: bigint }[]>
  /** Work never paid since `since`: sums by slot of time, and payers, latest last. */
  lost(since: UnixMs, options: { slotMs: number; payersMax: number }): Promise<StoredLosses>
  /** The number of owed payments, and of those that will never be paid. */
  counts(): Promise<{ owed: number; unsettled: number }>
  /** When the oldest owed payment was accepted. */
  oldestOwed(): Promise<UnixMs | undefined>
}

/** A row written further in the future than this was written before the clock was set back. */
const SET_BACK_MS = 60_000

/** The first query is about the challenge as the authorization's nonce, as it should be. Both use an index. */
const WITH_CHALLENGE = [
  'SELECT 1 FROM payments WHERE authorization_nonce = ? AND channel IS NULL AND challenge_nonce = authorization_nonce',
  'SELECT 1 FROM payments WHERE challenge_nonce = ? AND challenge_nonce <> authorization_nonce',
] as const
const CHALLENGE_CONSUMED = WITH_CHALLENGE.join(' UNION ALL ')
/** Unique keys decide between two claims at once. A change that fails is undone as a whole, so OR FAIL spares a journal of pages. */
const CLAIM = `
  INSERT OR FAIL INTO payments
    (id, state, agent_id, peer_id, correlation_id, challenge_nonce, ${AUTHORIZATION_COLUMNS}, task, awaited, door,
     bound_to, owner, counted, running, created_at, updated_at)
  SELECT ?, 'authorized', ?, ?, ?, ?, ${AUTHORIZATION_PLACES}, ?, ?, ?, ?, ?, ?, ?, ?, ?
  WHERE ${WITH_CHALLENGE.map((sql) => `NOT EXISTS (${sql})`).join(' AND ')} ON CONFLICT DO NOTHING`

/**
 * A payment that another process voided before its run had a result, sent once more by the same peer. If the sums of unsettled
 * work still have it (exposed.ts), it stays counted there.
 */
const CLAIM_AGAIN = `
  UPDATE payments SET state = 'authorized', owner = ?, task = ?, running = ?, error = NULL, updated_at = ?,
    counted = CASE WHEN counted > 0 THEN counted ELSE ? END
  WHERE id = ? AND state = 'voided' AND running = ${MAY_MOVE} AND exchange_id IS NULL AND peer_id = ? AND agent_id = ?`

const PROGRESS = `
  state = ?, attempts = coalesce(?, attempts), next_attempt_at = ?, unclear = ?, tx_hash = ?, error = ?, look_at = ?,
  blamed = ?, updated_at = ?`
/** The task of a payment that is given up is forgotten. Its place is kept: it says that the payment settles first. */
const FORGET_TASK = `, task = CASE WHEN task IS NULL THEN task ELSE '' END`
const DELIVERED = `, receipt = coalesce(?, receipt), exchange_id = coalesce(exchange_id, ${LAST_EXCHANGE})`
const UNDER_WAY = `WHERE id = ? AND state IN ('authorized', 'owed')`

const REOPEN = `
  UPDATE payments SET state = 'owed', attempts = ?, next_attempt_at = ?, unclear = ?, owner = ?, updated_at = ?
  WHERE id = ? AND state = 'unsettled' AND ${WORK_DONE}`
const HASTEN_ONE = `UPDATE payments SET next_attempt_at = ?, updated_at = ? WHERE id = ? AND state = 'owed'`

/** A refunded payment is final: the chain is not asked again. */
const PAY_BACK = `UPDATE payments SET refund_tx = ?, look_at = NULL, running = 0, updated_at = ? WHERE id = ? AND refund_tx IS NULL`

/** Worded like the index of open payments, so that SQLite uses it. */
const OWED = `state IN ('authorized', 'owed') AND state = 'owed'`
const HASTEN = `UPDATE payments SET next_attempt_at = ? WHERE ${OWED} AND owner = ? AND next_attempt_at > ?`
const DUE = `
  SELECT * FROM payments WHERE ${OWED} AND owner = ? AND (next_attempt_at <= ? OR updated_at > ?)
  ORDER BY next_attempt_at NULLS FIRST, no LIMIT ?`
const NEXT_DUE = `SELECT min(next_attempt_at) AS at FROM payments WHERE ${OWED} AND owner = ?`

const BY_AUTHORIZATION = `
  SELECT 1 FROM payments
  WHERE authorization_nonce = ? AND lower(payer) = lower(?) AND lower(asset) = lower(?) AND network = ?
    AND channel IS NULL LIMIT 1`

/** How many payments are owed, and how many will never be paid. */
const OWED_COUNT = `SELECT count(*) AS n FROM payments WHERE ${OWED}`
const UNSETTLED_COUNT = `SELECT count(*) AS n FROM payments WHERE state = 'unsettled' AND exchange_id IS NOT NULL`

export function createPayments(database: LedgerDatabase): Payments {
  const { process } = database
  const rows = async (sql: string, ...values: Value[]) =>
    (await database.query(all<PaymentRow>(sql, ...values))).map(toPayment)
  const isThere = async (sql: string, ...values: Value[]) => (await database.query(one(sql, ...values))) !== undefined
  const first = async (sql: string, ...values: Value[]) =>
    (await database.query(one<{ at: number | null }>(sql, ...values)))?.at ?? undefined

  return {
    ...settledLooks(database, toPayment),
    ...exposedPayments(database, claimed),
    ...paidRuns(database),
    ...namedTransactions(database),
    claim: async (claim, now) =>
      (await database.commit(claimed(claim, { process, now, counted: 0 }), payment(claim.id))) === 1,
    async deliver(progress, exchange, now) {
      await database.commit(delivered(progress, exchange, now), payment(progress.id))
    },
    async save(progress, now) {
      if (progress.state === 'unsettled') {
        const row = await database.commitLater(givenUp(progress, now), payment(progress.id))
        return row && toPayment(row)
      }
      await database.commitLater(progressed(progress, now), payment(progress.id))
      return undefined
    },
    async reopen({ id, attempts = 0, nextAttemptAt, unclear = true }, now) {
      const values = [attempts, nextAttemptAt ?? now, unclear ? 1 : 0, process, now, toBytes(id)]
      const [reopened] = await database.commit(together(run(REOPEN, ...values), noteRevision()), payment(id))
      return reopened === 1
    },
    hastenOne: async (id, now) => (await database.commit(run(HASTEN_ONE, now, now, toBytes(id)), payment(id))) === 1,
    async paidBack(id, txHash, now) {
      await database.commit(run(PAY_BACK, toBytes(txHash), now, toBytes(id)), payment(id))
    },
    get: async (id) => (await rows('SELECT * FROM payments WHERE id = ?', toBytes(id)))[0],
    challengeConsumed(challengeNonce) {
      const nonce = toBytes(challengeNonce)
      return isThere(CHALLENGE_CONSUMED, nonce, nonce)
    },
    authorizationSeen: (network, asset, from, nonce) => isThere(BY_AUTHORIZATION, toBytes(nonce), from, asset, network),
    due: (now, limit) => rows(DUE, process, now, now + SET_BACK_MS, limit),
    nextDueAt: () => first(NEXT_DUE, process),
    async hasten(now) {
      await database.commit(run(HASTEN, now, process, now))
    },
    async takeOver(error, now) {
      for (let sum = 0; ; ) {
        const changes = takingOver(takeOverPayments(process, error, now))
        const [, voided, deferred] = await database.commit(notedIfAny(changes, database))
        sum += voided
        if (deferred < DEFERRED_MAX) return sum
      }
    },
    oldestOwed: () => first(`SELECT min(created_at) AS at FROM payments WHERE ${OWED}`),
    open: async () =>
      (await rows(`SELECT * FROM payments WHERE ${OWED} AND ${WORK_DONE}`)).map(
        ({ id, peerId, signed, requirements }) => ({
          ...{ id, peerId, payer: signed.authorization.from, amount: requirements.amount },
        }),
      ),
    lost: (since, options) => database.query(storedLosses(since, options)),
    async counts() {
      const [owed, unsettled] = await database.query(
        together(one<{ n: number }>(OWED_COUNT), one<{ n: number }>(UNSETTLED_COUNT)),
      )
      return { owed: owed!.n, unsettled: unsettled!.n }
    },
  }
}

const payment = (id: Hex) => ({ record: 'payment', id }) as const

/** @param counted see exposed.ts */
function claimed(
  claim: Claim,
  { process, now, counted }: { process: string; now: UnixMs; counted: number },
): Query<number> {
  const id = toBytes(claim.id)
  const challenge = claim.challengeNonce === undefined ? null : toBytes(claim.challengeNonce)
  const running = claim.task === undefined ? 0 : 1
  const inserted = run(
    CLAIM,
    id,
    claim.agentId,
    claim.peerId,
    claim.correlationId,
    challenge,
    ...authorizationValues(claim.requirements, claim.signed),
    claim.task ?? null,
    claim.awaited ?? null,
    claim.door ?? null,
    claim.boundTo ?? null,
    process,
    counted,
    running,
    now,
    now,
    challenge,
    challenge,
  )
  // Only a payment that was sent before comes without a challenge, and only a peer sends it to another process.
  if (claim.challengeNonce !== undefined || (claim.door ?? 'libp2p') !== 'libp2p') return inserted
  const again = run(CLAIM_AGAIN, process, claim.task ?? null, running, now, counted, id, claim.peerId, claim.agentId)
  return together(again, inserted).map(([moved, stored]) => moved + stored)
}

function progressed(progress: PaymentProgress, now: UnixMs): Query<number> {
  return run(`UPDATE payments SET ${PROGRESS} ${UNDER_WAY}`, ...progressValues(progress, now), toBytes(progress.id))
}

function givenUp(progress: PaymentProgress, now: UnixMs): Query<PaymentRow | undefined> {
  const values = [...progressValues(progress, now), toBytes(progress.id)]
  return one(`UPDATE payments SET ${PROGRESS} ${FORGET_TASK} ${UNDER_WAY} RETURNING *`, ...values)
}

/** The exchange is stored first: the payment notes its id. */
function delivered(progress: PaymentProgress, exchange: NewExchange, now: UnixMs): Query<unknown> {
  const { receipt } = exchange
  return together(
    recordExchange(exchange),
    run(
      `UPDATE payments SET ${PROGRESS} ${DELIVERED} ${UNDER_WAY}`,
      ...progressValues(progress, now),
      receipt === undefined ? null : packReceipt(receipt),
      toBytes(progress.id),
    ),
  )
}

function progressValues(progress: PaymentProgress, now: UnixMs): Value[] {
  return [
    progress.state,
    progress.attempts ?? null,
    progress.nextAttemptAt ?? null,
    progress.unclear === true ? 1 : 0,
    progress.txHash === undefined ? null : toBytes(progress.txHash),
    progress.error ?? null,
    progress.lookAt ?? null,
    progress.blamed === true ? 1 : null,
    now,
  ]
}
