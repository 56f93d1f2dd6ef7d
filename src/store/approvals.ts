import type { UnixMs } from '../lib/clock.ts'
import type { ApprovalStatus } from '../schema/approval.ts'
import type { Database } from './database.ts'
import { bindKey, type KeyedRequest } from './idempotency.ts'
import { givenTerms } from './look-back.ts'
import { type Order, type OrderRow, type OrderStatus, putOrder, toOrder } from './order-row.ts'
import type { OpenLimits } from './orders.ts'
import type { RowOf } from './row.ts'
import { runOnSqlite } from './sqlite-query.ts'

export type StoredApproval = {
  id: string
  orderId: string
  agentId: string
  agentName: string
  sellerId: string
  /** In atomic units. */
  amount: bigint
  /** The task of the order. */
  task: string | undefined
  tokenId: string | undefined
  workflowId: string | undefined
  reason: string
  status: ApprovalStatus
  createdAt: UnixMs
  expiresAt: UnixMs
}
export type Verdict = 'approved' | 'denied'

/** Purchases that wait for the operator's approval. Every change is one transaction, durable when it resolves. */
export interface ApprovalStore {
  /**
   * Stores an order and its approval request, or returns the pending approval of the same purchase. The key of the
   * request then names the order of that approval. `full`: too many approvals are open. `share`: too many are open for
   * this token.
   *
   * @throws KeyTaken, CodedError IDEMPOTENCY_CONFLICT
   */
  ask(
    order: Order,
    approval: StoredApproval,
    limits: OpenLimits,
    request?: KeyedRequest | undefined,
  ): Promise<StoredApproval | 'full' | 'share'>
  /** Decides a pending approval before it expires. A denied order fails. @returns the approval; undefined: unknown */
  decide(id: string, verdict: Verdict, now: UnixMs): Promise<{ approval: StoredApproval; decided: boolean } | undefined>
  /** Expires approvals that nobody decided in time or whose orders have ended. @returns the expired approvals */
  expire(now: UnixMs): Promise<StoredApproval[]>
  get(id: string): StoredApproval | undefined
  /** Newest first. */
  list(query: { status?: ApprovalStatus | undefined; ownerId?: string | undefined }, limit: number): StoredApproval[]
  /** The highest price that the operator has approved for an order, in atomic units. */
  approvedFor(orderId: string): bigint | undefined
}

type ApprovalRow = RowOf<StoredApproval>

const INSERT = `
  INSERT INTO approvals (id, order_id, agent_id, agent_name, seller_id, amount, reason, status, created_at, expires_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?)`
const SELECT = `
  SELECT a.id, a.order_id AS orderId, a.agent_id AS agentId, a.agent_name AS agentName, a.seller_id AS sellerId, a.amount,
    o.task, o.token_id AS tokenId, o.workflow_id AS workflowId, a.reason, a.status, a.created_at AS createdAt,
    a.expires_at AS expiresAt
  FROM approvals a LEFT JOIN orders o ON o.id = a.order_id`
/** Matches the same order, or the same agent, task and caller, at the same price or a higher one. */
const STANDING = `
  ${SELECT} WHERE a.status = 'pending' AND a.agent_id = ? AND a.amount >= ? AND o.status = 'pending'
    AND (o.id = ? OR (? AND o.task = ? AND o.token_id IS ? AND o.workflow_id IS NULL AND o.for_run IS NULL))`
const OPEN = `
  SELECT count(*) AS n, count(*) FILTER (WHERE o.token_id = ?) AS own
  FROM approvals a LEFT JOIN orders o ON o.id = a.order_id WHERE a.status = 'pending'`
const OVERDUE = `
  ${SELECT} WHERE a.status = 'pending' AND (a.expires_at <= ? OR o.status IS NOT 'pending')`
const SET = `UPDATE approvals SET status = ?, decided_at = ? WHERE id = ? AND status = 'pending'`

export function createApprovalStore(database: Database): ApprovalStore {
  const rows = (sql: string, ...values: (string | number | null)[]) =>
    database.all<ApprovalRow>(sql, ...values).map(fromRow)
  const get = (id: string) => rows(`${SELECT} WHERE a.id = ?`, id)[0]
  const order = (id: string) => {
    const row = database.one<OrderRow>('SELECT * FROM orders WHERE id = ?', id)
    return row && toOrder(row)
  }
  const fail = (orderId: string, code: string, message: string, now: UnixMs) => {
    const waiting = order(orderId)
    if (waiting?.status !== 'pending') return
    const status: OrderStatus = 'failed'
    runOnSqlite(
      database.prepare,
      putOrder({ ...waiting, status, error: { code, message, retryable: false }, updatedAt: now }),
    )
  }

  return {
    ask: (asked, approval, limits, request) =>
      database.write(() => {
        const { agentId, amount } = approval
        // An order of a run ends with the run, so no other request can share it.
        const isNew = order(asked.id) === undefined && asked.boughtFor === undefined
        const same = [asked.id, isNew ? 1 : 0, asked.task ?? null, asked.tokenId ?? null]
        const [standing] = rows(STANDING, agentId, Number(amount), ...same)
        const bind = (id: string) => {
          if (request !== undefined)
            runOnSqlite(database.prepare, bindKey(request, { kind: 'execute', id }, asked.createdAt))
        }
        if (standing !== undefined) {
          bind(standing.orderId)
          return standing
        }
        const open = database.one<{ n: number; own: number }>(OPEN, asked.tokenId ?? '')!
        if (open.n >= limits.all) return 'full'
        if (asked.tokenId !== undefined && open.own >= limits.perToken) return 'share'
        bind(asked.id)
        runOnSqlite(database.prepare, putOrder(asked))
        const { id, orderId, agentName, sellerId, reason, createdAt, expiresAt } = approval
        database.run(INSERT, id, orderId, agentId, agentName, sellerId, amount, reason, createdAt, expiresAt)
        database.run('UPDATE orders SET approval_id = ? WHERE id = ?', id, orderId)
        return approval
      }),
    decide: (id, verdict, now) =>
      database.write(() => {
        const approval = get(id)
        if (approval === undefined) return undefined
        const isOpen = approval.status === 'pending' && now < approval.expiresAt
        if (!isOpen || order(approval.orderId)?.status !== 'pending') return { approval, decided: false }
        database.run(SET, verdict, now, id)
        if (verdict === 'denied') fail(approval.orderId, 'APPROVAL_DENIED', 'the operator has denied it', now)
        return { approval: { ...approval, status: verdict }, decided: true }
      }),
    async expire(now) {
      // Runs every second: avoid a write if nothing has expired.
      if (rows(`${OVERDUE} LIMIT 1`, now).length === 0) return []
      return database.write(() => {
        const overdue = rows(OVERDUE, now)
        for (const { id, orderId } of overdue) {
          database.run(SET, 'expired', now, id)
          fail(orderId, 'APPROVAL_EXPIRED', 'nobody has approved it in time', now)
        }
        return overdue.map((approval) => ({ ...approval, status: 'expired' as const }))
      })
    },
    get,
    list({ status, ownerId }, limit) {
      const { terms, values } = givenTerms([
        ['a.status = ?', status],
        ['o.token_id = ?', ownerId],
      ])
      const where = terms.length === 0 ? '' : `WHERE ${terms.join(' AND ')}`
      return rows(`${SELECT} ${where} ORDER BY a.no DESC LIMIT ?`, ...values, limit)
    },
    approvedFor(orderId) {
      const row = database.one<{ amount: number | null }>(
        `SELECT max(amount) AS amount FROM approvals WHERE order_id = ? AND status = 'approved'`,
        orderId,
      )!
      return row.amount === null ? undefined : BigInt(row.amount)
    },
  }
}

function fromRow(row: ApprovalRow): StoredApproval {
  return {
    ...row,
    amount: BigInt(row.amount),
    task: row.task ?? undefined,
    tokenId: row.tokenId ?? undefined,
    workflowId: row.workflowId ?? undefined,
  }
}
