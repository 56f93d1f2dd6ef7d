import { isDeepStrictEqual } from 'node:util'
import type { UnixMs } from '../lib/clock.ts'
import type { ApprovalStatus } from '../schema/approval.ts'
import type { WebOrder } from '../schema/web-purchase.ts'
import { bindKey, type KeyedRequest } from './idempotency.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { givenTerms } from './look-back.ts'
import { type Order, type OrderRow, putOrder } from './order-row.ts'
import type { OpenLimits } from './orders.ts'
import { all, lock, nothing, one, type Query, run, steps, together, type Value } from './query.ts'
import type { RowOf } from './row.ts'

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
   * this token. `begun`: another process has begun the order, or it has ended.
   *
   * @throws KeyTaken, CodedError IDEMPOTENCY_CONFLICT
   */
  ask(
    order: Order,
    approval: StoredApproval,
    limits: OpenLimits,
    request?: KeyedRequest | undefined,
  ): Promise<StoredApproval | 'full' | 'share' | 'begun'>
  /** Decides a pending approval before it expires. A denied order fails. @returns the approval; undefined: unknown */
  decide(id: string, verdict: Verdict, now: UnixMs): Promise<{ approval: StoredApproval; decided: boolean } | undefined>
  /** Expires approvals that nobody decided in time or whose orders have ended. @returns the expired approvals */
  expire(now: UnixMs): Promise<StoredApproval[]>
  get(id: string): Promise<StoredApproval | undefined>
  /** Newest first. */
  list(
    query: { status?: ApprovalStatus | undefined; ownerId?: string | undefined },
    limit: number,
  ): Promise<StoredApproval[]>
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
/** Matches the same order at the same price or a higher one. `OR` adds requests that may share one order. */
const standing = (or: string) => `
  ${SELECT} WHERE a.status = 'pending' AND a.agent_id = ? AND a.amount >= ? AND o.status = 'pending'
    AND (o.id = ? ${or}) ORDER BY a.no LIMIT 1`
const STANDING_OF_ORDER = standing('')
/** Matches the same agent, task and caller too. */
const STANDING = standing(
  'OR (o.task = ? AND o.token_id IS NOT DISTINCT FROM ? AND o.workflow_id IS NULL AND o.for_run IS NULL AND o.web IS NULL)',
)
/** Candidates at a URL: their requests are compared in full, because an address without its query names many purchases. */
const STANDING_ON_WEB = `
  SELECT a.id, o.web FROM approvals a JOIN orders o ON o.id = a.order_id
  WHERE a.status = 'pending' AND a.agent_id = ? AND a.amount >= ? AND o.status = 'pending' AND o.web IS NOT NULL
    AND o.task = ? AND o.token_id IS NOT DISTINCT FROM ? AND o.workflow_id IS NULL AND o.for_run IS NULL
  ORDER BY a.no LIMIT 100`
const OPEN = `
  SELECT count(*) AS n, count(*) FILTER (WHERE o.token_id = ?) AS own
  FROM approvals a LEFT JOIN orders o ON o.id = a.order_id WHERE a.status = 'pending'`
const HOLD = `
  UPDATE orders SET seller_id = ?, web = coalesce(?, web), updated_at = ? WHERE id = ? AND status = 'pending'`
const LINK = 'UPDATE orders SET approval_id = ? WHERE id = ?'
const IS_WAITING = `EXISTS (SELECT 1 FROM orders o WHERE o.id = approvals.order_id AND o.status = 'pending')`
const DECIDE = `
  UPDATE approvals SET status = ?1, decided_at = ?2
  WHERE id = ?3 AND status = 'pending' AND expires_at > ?2 AND ${IS_WAITING}`
const OVERDUE = `status = 'pending' AND (expires_at <= ?1 OR NOT ${IS_WAITING})`
const EXPIRE = `UPDATE approvals SET status = 'expired', decided_at = ?1 WHERE ${OVERDUE} RETURNING id`
const FAIL = `
  UPDATE orders SET status = CASE WHEN cancel_requested_at IS NULL THEN 'failed' ELSE 'cancelled' END, error = ?,
    updated_at = ?
  WHERE status = 'pending' AND id = (SELECT order_id FROM approvals WHERE id = ?)`
/** The highest price that the operator has approved for the order `asked`, as a subquery. */
export const APPROVED_PRICE = "(SELECT max(amount) FROM approvals WHERE order_id = asked.id AND status = 'approved')"

export function createApprovalStore(database: LedgerDatabase): ApprovalStore {
  return {
    ask: (asked, approval, limits, request) =>
      database.commit(ask(asked, approval, limits, { process: database.process, request }), noted(approval.id), {
        record: 'order',
        id: asked.id,
      }),
    decide: (id, verdict, now) => database.commit(decide(id, verdict, now), noted(id), ...ofOrder(id)),
    async expire(now) {
      // Runs every second: avoid a write if nothing has expired.
      const overdue = await database.query(one(`SELECT id FROM approvals WHERE ${OVERDUE} LIMIT 1`, now))
      return overdue === undefined ? [] : database.commit(expire(now, database))
    },
    get: (id) => database.query(approvalOf(id)),
    list({ status, ownerId }, limit) {
      const { terms, values } = givenTerms([
        ['a.status = ?', status],
        ['o.token_id = ?', ownerId],
      ])
      const where = terms.length === 0 ? '' : `WHERE ${terms.join(' AND ')}`
      return database.query(approvals(`${SELECT} ${where} ORDER BY a.no DESC LIMIT ?`, ...values, limit))
    },
  }
}

const noted = (id: string) => ({ record: 'approval', id }) as const
/** Reports the order of a decided approval, and asks the process that works on it to look at it. */
const ofOrder = (approvalId: string) => [
  { record: 'order', approvalId } as const,
  { record: 'work', approvalId } as const,
]

function approvals(sql: string, ...values: readonly Value[]): Query<StoredApproval[]> {
  return all<ApprovalRow>(sql, ...values).map((rows) => rows.map(fromRow))
}

function approvalOf(id: string): Query<StoredApproval | undefined> {
  return one<ApprovalRow>(`${SELECT} WHERE a.id = ?`, id).map((row) => row && fromRow(row))
}

/** Waits for its turn, so that of two requests for the same purchase one finds the approval of the other. */
function ask(
  asked: Order,
  approval: StoredApproval,
  limits: OpenLimits,
  { process, request }: { process: string; request: KeyedRequest | undefined },
): Query<StoredApproval | 'full' | 'share' | 'begun'> {
  const bind = (id: string) => bindKey(request!, { kind: 'execute', id }, asked.createdAt)
  return steps(function* () {
    yield* lock('approvals')
    const [known, open] = yield* together(
      one<Pick<OrderRow, 'id'>>('SELECT id FROM orders WHERE id = ?', asked.id),
      one<{ n: number; own: number }>(OPEN, asked.tokenId ?? ''),
    )
    // An order of a run ends with the run, so no other request can share it.
    const isShared = known === undefined && asked.boughtFor === undefined
    const same = [approval.agentId, approval.amount, asked.id] as const
    const what = [asked.task ?? null, asked.tokenId ?? null] as const
    const [found] = !isShared
      ? yield* approvals(STANDING_OF_ORDER, ...same)
      : asked.web === undefined
        ? yield* approvals(STANDING, ...same, ...what)
        : yield* standingOnWeb(asked.web, [approval.agentId, approval.amount, ...what])
    if (found !== undefined) {
      if (request !== undefined) yield* bind(found.orderId)
      return found
    }
    if (open!.n >= limits.all) return 'full'
    if (asked.tokenId !== undefined && open!.own >= limits.perToken) return 'share'
    if (request !== undefined) yield* bind(asked.id)
    const { id, orderId, agentId, agentName, sellerId, amount, reason, createdAt, expiresAt } = approval
    if (known !== undefined && (yield* holdKnown(asked)) === 0) return 'begun'
    yield* together(
      known === undefined ? putOrder(asked, process) : nothing(0),
      run(INSERT, id, orderId, agentId, agentName, sellerId, amount, reason, createdAt, expiresAt),
      run(LINK, id, orderId),
    )
    return approval
  })
}

/** Stores in a placed order which seller it would pay, until its execution begins. */
function holdKnown({ id, sellerId, web, updatedAt }: Order): Query<number> {
  return run(HOLD, sellerId ?? null, web === undefined ? null : JSON.stringify(web), updatedAt, id)
}

/** The approval that waits for the same request. */
function standingOnWeb(asked: WebOrder, wanted: readonly Value[]): Query<StoredApproval[]> {
  const wish = ({ request, expected = {} }: WebOrder): unknown => JSON.parse(JSON.stringify({ request, expected }))
  return steps(function* () {
    for (const { id, web } of yield* all<{ id: string; web: string }>(STANDING_ON_WEB, ...wanted)) {
      if (isDeepStrictEqual(wish(JSON.parse(web)), wish(asked))) return yield* approvals(`${SELECT} WHERE a.id = ?`, id)
    }
    return []
  })
}

function decide(
  id: string,
  verdict: Verdict,
  now: UnixMs,
): Query<{ approval: StoredApproval; decided: boolean } | undefined> {
  return steps(function* () {
    const [changes, approval] = yield* together(run(DECIDE, verdict, now, id), approvalOf(id))
    if (approval === undefined) return undefined
    if (changes === 1 && verdict === 'denied') yield* fail(id, 'APPROVAL_DENIED', 'the operator has denied it', now)
    return { approval, decided: changes === 1 }
  })
}

function expire(now: UnixMs, { note }: Pick<LedgerDatabase, 'note'>): Query<StoredApproval[]> {
  return steps(function* () {
    const expired = yield* all<{ id: string }>(EXPIRE, now)
    const each = expired.map(({ id }) =>
      together(fail(id, 'APPROVAL_EXPIRED', 'nobody has approved it in time', now), approvalOf(id)),
    )
    const [ended] = yield* together(
      together(...each),
      note(...expired.flatMap(({ id }) => [noted(id), ...ofOrder(id)])),
    )
    return ended.flatMap(([, approval]) => approval ?? [])
  })
}

/** Fails the order of an approval, if it waits. */
function fail(id: string, code: string, message: string, now: UnixMs): Query<number> {
  return run(FAIL, JSON.stringify({ code, message, retryable: false }), now, id)
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
