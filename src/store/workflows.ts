import type { UnixMs } from '../lib/clock.ts'
import type { Page } from '../schema/page.ts'
import type { WorkflowStatus } from '../schema/workflow.ts'
import { bindKey, freeKey, type KeyedRequest } from './idempotency.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { endWorkflowsOfBackup } from './ledger-turn.ts'
import { givenTerms, type LookBackQuery } from './look-back.ts'
import { type Order, putOrder } from './order-row.ts'
import type { OpenLimits } from './orders.ts'
import { LEFT_BEHIND, takingOver } from './ownership.ts'
import { all, nothing, one, type Query, run, steps, together } from './query.ts'
import { type RowLength, readLongPage } from './read-page.ts'
import { type WorkflowBooks, workflowBooks } from './workflow-books.ts'
import {
  type AttemptRow,
  type StepAttempt,
  type StepPlan,
  type StepRow,
  type StoredStep,
  type StoredWorkflow,
  toAttempt,
  toWorkflow,
  type WorkflowRow,
  writePlan,
} from './workflow-row.ts'

export type StepChange = { id: string } & Partial<Omit<StoredStep, keyof StepPlan | 'price'>>
/** Cost of the orders of a workflow. `sure`: paid or executing. `perhaps`: signed without a result and not released. */
export type Spending = { sure: bigint; perhaps: bigint }
export type WorkflowsQuery = {
  status?: WorkflowStatus | undefined
  /** Only workflows of this token. */
  ownerId?: string | undefined
  limit: number
  cursor?: string | undefined
} & Pick<LookBackQuery, 'text' | 'since' | 'until'>

/** A workflow with its orders, oldest first, and the amounts signed for them. */
export type SeenWorkflow = {
  workflow: StoredWorkflow
  orders: { id: string; stepId: string }[]
  books: WorkflowBooks
}

/** Workflows and their progress. Every change is one transaction, durable when it resolves. */
export interface WorkflowStore {
  /**
   * Stores a new workflow with the idempotency key of its request. The answers are those of {@link OrderStore} `place`.
   */
  create(
    workflow: StoredWorkflow,
    limits: OpenLimits,
    request?: KeyedRequest | undefined,
  ): Promise<'placed' | 'full' | 'share'>
  /**
   * Changes steps together with the status of the workflow. @returns false if the workflow has changed since it was
   * read: another process was first, and nothing was stored
   */
  save(workflow: StoredWorkflow, changes: readonly StepChange[], status: WorkflowStatus, now: UnixMs): Promise<boolean>
  /** Stores an order together with its step: neither exists without the other. @returns false like `save` */
  begin(workflow: StoredWorkflow, change: StepChange, order: Order, now: UnixMs): Promise<boolean>
  get(id: string): Promise<StoredWorkflow | undefined>
  see(id: string): Promise<SeenWorkflow | undefined>
  /** Newest first, with an empty input. A page ends early if its templates are long. */
  list(query: WorkflowsQuery): Promise<Page<SeenWorkflow>>
  /** Workflows of this process that are not final, or whose steps are still running. */
  unfinished(): Promise<string[]>
  /** Takes over what processes left that have ended. */
  takeOver(now: UnixMs): Promise<void>
  /** The ids of every order of a workflow. */
  orders(id: string): Promise<string[]>
  /** Every order of a step, oldest first. */
  attempts(id: string, stepId: string): Promise<StepAttempt[]>
  spending(id: string): Promise<Spending>
}

type OrderOfStep = { id: string; stepId: string }

const OPEN = `
  SELECT count(*) AS n, count(*) FILTER (WHERE token_id = ?) AS own FROM workflows WHERE status IN ('pending', 'running')`
const INSERT = `
  INSERT INTO workflows (id, name, input, budget, status, created_at, updated_at, token_id, owner)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
const INSERT_STEP = `
  INSERT INTO workflow_steps (workflow_no, position, id, plan, price, status)
  VALUES ((SELECT no FROM workflows WHERE id = ?), ?, ?, ?, ?, ?)`
const COLUMNS = `
  no, id, name, budget, status, created_at AS createdAt, updated_at AS updatedAt, token_id AS tokenId, revision`
const ONE = `SELECT ${COLUMNS}, input FROM workflows WHERE id = ?`
/** Of two processes that go on from the same revision, the second waits for the first to commit and changes nothing. */
const SET_STATUS = `
  UPDATE workflows SET status = ?, updated_at = ?, revision = revision + 1 WHERE id = ? AND revision = ?`
const UPDATE_STEP = `
  UPDATE workflow_steps SET status = ?, agent = ?, tries = ?, order_id = ?, error = ?, refused_at = ?, started_at = ?,
    ended_at = ?
  WHERE workflow_no = (SELECT no FROM workflows WHERE id = ?) AND id = ?`
const stepsOf = (nos: string) => `
  SELECT workflow_no AS workflowNo, id, plan, price, status, agent, tries, order_id AS orderId, error,
    refused_at AS refusedAt, started_at AS startedAt, ended_at AS endedAt
  FROM workflow_steps WHERE workflow_no IN (${nos}) ORDER BY workflow_no, position`
const STEPS = stepsOf('SELECT no FROM workflows WHERE id = ?')
const LENGTH = `
  (SELECT coalesce(sum(octet_length(plan)), 0) FROM workflow_steps WHERE workflow_no = workflows.no)`
const IS_UNFINISHED = `(status IN ('pending', 'running')
    OR no IN (SELECT workflow_no FROM workflow_steps WHERE status = 'running'))`
const UNFINISHED = `SELECT id FROM workflows WHERE ${IS_UNFINISHED} AND owner = ? ORDER BY no`
const TAKE_OVER = `UPDATE workflows SET owner = ? WHERE ${IS_UNFINISHED} AND ${LEFT_BEHIND}`
const ORDERS = 'SELECT id, step_id AS stepId FROM orders WHERE workflow_id = ? ORDER BY no'
const ATTEMPTS = `
  SELECT o.id AS orderId, o.status, o.error, o.updated_at AS updatedAt, a.state AS signed,
    a.settles_first AS settlesFirst
  FROM orders o LEFT JOIN authorizations a ON a.order_no = o.no
  WHERE o.workflow_id = ? AND o.step_id = ? ORDER BY o.no`
const SPENDING = `
  SELECT
    CAST(coalesce(sum(CASE WHEN a.state = 'spent' THEN a.amount
      WHEN o.status IN ('pending', 'executing') THEN coalesce(a.amount, o.price) END), 0) AS TEXT) AS sure,
    CAST(coalesce(sum(CASE WHEN a.state = 'reserved' AND o.status NOT IN ('pending', 'executing') THEN a.amount END), 0)
      AS TEXT) AS perhaps
  FROM orders o LEFT JOIN authorizations a ON a.order_no = o.no WHERE o.workflow_id = ?`

export function createWorkflowStore(database: LedgerDatabase): WorkflowStore {
  const { process } = database
  return {
    create: (workflow, limits, request) =>
      database.commit(create(workflow, limits, { process, request }), noted(workflow)),
    save: (workflow, changes, status, now) =>
      database.commit(save(workflow, changes, { status, now }), noted(workflow)),
    begin(workflow, changed, order, now) {
      const change = {
        ...changed,
        status: 'running',
        orderId: order.id,
        error: undefined,
        refusedAt: undefined,
      } as const
      const begun = save(workflow, [change], { status: 'running', now }, putOrder(order, process))
      return database.commit(begun, noted(workflow), { record: 'order', id: order.id })
    },
    get: (id) => database.query(get(id)),
    see: (id) =>
      database.query(
        steps(function* () {
          const [workflow, orders, books] = yield* together(get(id), all<OrderOfStep>(ORDERS, id), workflowBooks(id))
          return workflow && { workflow, orders, books }
        }),
      ),
    list: (query) => database.query(list(query)),
    async unfinished() {
      return (await database.query(all<{ id: string }>(UNFINISHED, process))).map(({ id }) => id)
    },
    async takeOver(now) {
      await database.commit(takingOver(together(endWorkflowsOfBackup(now), run(TAKE_OVER, process))))
    },
    async orders(id) {
      return (await database.query(all<OrderOfStep>(ORDERS, id))).map((order) => order.id)
    },
    async attempts(id, stepId) {
      return (await database.query(all<AttemptRow>(ATTEMPTS, id, stepId))).map(toAttempt)
    },
    async spending(id) {
      const { sure, perhaps } = (await database.query(one<{ sure: string; perhaps: string }>(SPENDING, id)))!
      return { sure: BigInt(sure), perhaps: BigInt(perhaps) }
    },
  }
}

const noted = ({ id }: StoredWorkflow) => ({ record: 'workflow', id }) as const

function create(
  workflow: StoredWorkflow,
  limits: OpenLimits,
  { process, request }: { process: string; request: KeyedRequest | undefined },
): Query<'placed' | 'full' | 'share'> {
  const { id, name, input, budget, status, createdAt, updatedAt, tokenId } = workflow
  return steps(function* () {
    if (request !== undefined) yield* bindKey(request, { kind: 'workflow', id }, createdAt)
    const open = (yield* one<{ n: number; own: number }>(OPEN, tokenId ?? ''))!
    const refusal =
      open.n >= limits.all ? 'full' : tokenId !== undefined && open.own >= limits.perToken ? 'share' : undefined
    if (refusal !== undefined) {
      if (request !== undefined) yield* freeKey(request, id)
      return refusal
    }
    yield* together(
      run(INSERT, id, name ?? null, input, budget ?? null, status, createdAt, updatedAt, tokenId ?? null, process),
      ...workflow.steps.map((step, position) =>
        run(INSERT_STEP, id, position, step.id, writePlan(step), step.price, step.status),
      ),
    )
    return 'placed'
  })
}

/** `beside`: what is stored with the change. */
function save(
  { id, revision, steps: known }: StoredWorkflow,
  changes: readonly StepChange[],
  { status, now }: { status: WorkflowStatus; now: UnixMs },
  beside: Query<unknown> = nothing(undefined),
): Query<boolean> {
  return steps(function* () {
    const isCurrent = (yield* run(SET_STATUS, status, now, id, revision)) === 1
    if (isCurrent) yield* together(beside, ...changes.map((change) => updateStep(id, known, change)))
    return isCurrent
  })
}

function updateStep(id: string, known: readonly StoredStep[], { id: stepId, ...changed }: StepChange): Query<number> {
  const step = known.find((each) => each.id === stepId)
  if (step === undefined) throw new Error(`workflow ${id} has no step ${stepId}`)
  const next = { ...step, ...changed }
  return run(
    UPDATE_STEP,
    next.status,
    next.agent,
    next.tries,
    next.orderId ?? null,
    next.error === undefined ? null : JSON.stringify(next.error),
    next.refusedAt ?? null,
    next.startedAt ?? null,
    next.endedAt ?? null,
    id,
    stepId,
  )
}

function get(id: string): Query<StoredWorkflow | undefined> {
  return steps(function* () {
    const [row, ofSteps] = yield* together(one<WorkflowRow>(ONE, id), all<StepRow>(STEPS, id))
    return row && toWorkflow(row, ofSteps)
  })
}

function list({ limit, ...query }: WorkflowsQuery): Query<Page<SeenWorkflow>> {
  const { status, ownerId, cursor, text, since, until } = query
  const { terms, values } = givenTerms([
    [
      `lower(coalesce(name, id)) LIKE lower(?) ESCAPE '\\'`,
      text === undefined ? undefined : `%${text.replace(/[\\%_]/g, '\\$&')}%`,
    ],
    ['created_at >= ?', since],
    ['created_at < ?', until],
    ['status = ?', status],
    ['token_id = ?', ownerId],
    ['no < ?', cursor === undefined ? undefined : Number(cursor)],
  ])
  const where = terms.length === 0 ? '' : `WHERE ${terms.join(' AND ')}`
  const from = `FROM workflows ${where} ORDER BY no DESC LIMIT ?`
  return readLongPage(
    limit,
    (count) => all<RowLength>(`SELECT no, ${LENGTH} AS length ${from}`, ...values, count),
    (count) =>
      steps(function* () {
        const [rows, ofSteps] = yield* together(
          // Without the input, which may be megabytes.
          all<WorkflowRow>(`SELECT ${COLUMNS}, '' AS input ${from}`, ...values, count),
          all<StepRow>(stepsOf(`SELECT no ${from}`), ...values, count),
        )
        return yield* together(...rows.map((row) => seen(toWorkflow(row, ofSteps))))
      }),
  )
}

function seen(workflow: StoredWorkflow): Query<SeenWorkflow> {
  return steps(function* () {
    const [orders, books] = yield* together(all<OrderOfStep>(ORDERS, workflow.id), workflowBooks(workflow.id))
    return { workflow, orders, books }
  })
}
