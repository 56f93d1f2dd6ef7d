import type { UnixMs } from '../lib/clock.ts'
import type { Page } from '../schema/page.ts'
import type { StepStatus, WorkflowStatus } from '../schema/workflow.ts'
import type { Database } from './database.ts'
import { bindKey, freeKey, type KeyedRequest } from './idempotency.ts'
import { givenTerms, type LookBackQuery } from './look-back.ts'
import { type Order, type OrderError, putOrder } from './order-row.ts'
import type { OpenLimits } from './orders.ts'
import { readPage } from './read-page.ts'
import type { RowOf } from './row.ts'
import { runOnSqlite } from './sqlite-query.ts'
import { type WorkflowBooks, workflowBooks } from './workflow-books.ts'

/** A step ready to run: every choice is made. */
export type StepPlan = {
  id: string
  /** The agents to ask: the named agent first, then its fallbacks. */
  agents: readonly string[]
  /** A template. */
  input: string
  dependsOn: readonly string[]
  /** In atomic units. */
  maxPrice: bigint | undefined
  retries: number
  /** True: a purchase that was or may have been charged is bought again (D45). */
  rebuy?: boolean | undefined
}

export type StoredStep = StepPlan & {
  /** In atomic units, as listed when the workflow was created. */
  price: bigint
  status: StepStatus
  /** The index of the current agent in `agents`, and how often it has been asked. */
  agent: number
  tries: number
  /** The latest order of the step. */
  orderId: string | undefined
  /** Why the step failed, or why the latest attempt of a running step placed no order. */
  error: OrderError | undefined
  refusedAt: UnixMs | undefined
  startedAt: UnixMs | undefined
  endedAt: UnixMs | undefined
}

export type StoredWorkflow = {
  id: string
  name: string | undefined
  input: string
  /** In atomic units. */
  budget: bigint | undefined
  status: WorkflowStatus
  createdAt: UnixMs
  updatedAt: UnixMs
  /** The API token that created the workflow; undefined for the operator. */
  tokenId: string | undefined
  steps: StoredStep[]
}

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
  /** Changes steps together with the status of the workflow. */
  save(id: string, changes: readonly StepChange[], status: WorkflowStatus, now: UnixMs): Promise<void>
  /** Stores an order together with its step: neither exists without the other. */
  begin(id: string, change: StepChange, order: Order, now: UnixMs): Promise<void>
  get(id: string): StoredWorkflow | undefined
  /** Newest first, with an empty input. A page ends early if its templates are long. */
  list(query: WorkflowsQuery): Page<StoredWorkflow>
  /** Workflows that are not final, or whose steps are still running. */
  unfinished(): string[]
  /** Every order of a workflow, oldest first. */
  orders(id: string): { id: string; stepId: string }[]
  spending(id: string): Spending
  books(id: string): WorkflowBooks
}

type WorkflowRow = Omit<RowOf<StoredWorkflow>, 'steps'> & { no: number }
type StepRow = Omit<RowOf<StoredStep>, keyof StepPlan | 'error'> & { id: string; plan: string; error: string | null }

const OPEN = `
  SELECT count(*) AS n, count(*) FILTER (WHERE token_id = ?) AS own FROM workflows WHERE status IN ('pending', 'running')`
const INSERT = `
  INSERT INTO workflows (id, name, input, budget, status, created_at, updated_at, token_id)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
const INSERT_STEP = `
  INSERT INTO workflow_steps (workflow_no, position, id, plan, price, status)
  VALUES ((SELECT no FROM workflows WHERE id = ?), ?, ?, ?, ?, ?)`
const COLUMNS = 'no, id, name, budget, status, created_at AS createdAt, updated_at AS updatedAt, token_id AS tokenId'
/** Without the input, which may be megabytes. */
const LISTED = `${COLUMNS}, '' AS input`
const SET_STATUS = 'UPDATE workflows SET status = ?, updated_at = ? WHERE id = ?'
const UPDATE_STEP = `
  UPDATE workflow_steps SET status = ?, agent = ?, tries = ?, order_id = ?, error = ?, refused_at = ?, started_at = ?,
    ended_at = ?
  WHERE workflow_no = (SELECT no FROM workflows WHERE id = ?) AND id = ?`
const STEPS = `
  SELECT id, plan, price, status, agent, tries, order_id AS orderId, error, refused_at AS refusedAt,
    started_at AS startedAt, ended_at AS endedAt
  FROM workflow_steps WHERE workflow_no = ? ORDER BY position`
const UNFINISHED = `
  SELECT id FROM workflows WHERE status IN ('pending', 'running')
    OR no IN (SELECT workflow_no FROM workflow_steps WHERE status = 'running') ORDER BY no`
const SPENDING = `
  SELECT
    coalesce(sum(CASE WHEN a.state = 'spent' THEN a.amount
                      WHEN o.status IN ('pending', 'executing') THEN coalesce(a.amount, o.price) END), 0) AS sure,
    coalesce(sum(CASE WHEN a.state = 'reserved' AND o.status NOT IN ('pending', 'executing') THEN a.amount END), 0)
      AS perhaps
  FROM orders o LEFT JOIN authorizations a ON a.order_no = o.no WHERE o.workflow_id = ?`
export function createWorkflowStore(database: Database): WorkflowStore {
  const read = ({ no, ...row }: WorkflowRow): StoredWorkflow => ({
    ...row,
    name: row.name ?? undefined,
    budget: row.budget === null ? undefined : BigInt(row.budget),
    tokenId: row.tokenId ?? undefined,
    steps: database.all<StepRow>(STEPS, no).map(toStep),
  })
  const get = (id: string) => {
    const row = database.one<WorkflowRow>(`SELECT ${COLUMNS}, input FROM workflows WHERE id = ?`, id)
    return row && read(row)
  }

  function change(id: string, steps: readonly StoredStep[], { id: stepId, ...changed }: StepChange): void {
    const step = steps.find((known) => known.id === stepId)
    if (step === undefined) throw new Error(`workflow ${id} has no step ${stepId}`)
    const next = { ...step, ...changed }
    database
      .prepare(UPDATE_STEP)
      .run(
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

  return {
    create: (workflow, limits, request) =>
      database.write(() => {
        const { id, name, input, budget, status, createdAt, updatedAt, tokenId, steps } = workflow
        if (request !== undefined) runOnSqlite(database.prepare, bindKey(request, { kind: 'workflow', id }, createdAt))
        const open = database.one<{ n: number; own: number }>(OPEN, tokenId ?? '')!
        const refusal =
          open.n >= limits.all ? 'full' : tokenId !== undefined && open.own >= limits.perToken ? 'share' : undefined
        if (refusal !== undefined) {
          if (request !== undefined) runOnSqlite(database.prepare, freeKey(request))
          return refusal
        }
        database.run(INSERT, id, name ?? null, input, budget ?? null, status, createdAt, updatedAt, tokenId ?? null)
        for (const [position, step] of steps.entries()) {
          database.run(INSERT_STEP, id, position, step.id, writePlan(step), step.price, step.status)
        }
        return 'placed'
      }),
    save: (id, changes, status, now) =>
      database.write(() => {
        const { steps } = get(id)!
        for (const changed of changes) change(id, steps, changed)
        database.run(SET_STATUS, status, now, id)
      }),
    begin: (id, changed, order, now) =>
      database.write(() => {
        const { steps, status } = get(id)!
        if (status !== 'pending' && status !== 'running') throw new Error(`workflow ${id} is ${status}`)
        change(id, steps, { ...changed, status: 'running', orderId: order.id, error: undefined, refusedAt: undefined })
        runOnSqlite(database.prepare, putOrder(order))
        database.run(SET_STATUS, 'running', now, id)
      }),
    get,
    list({ status, ownerId, limit, cursor, text, since, until }) {
      const { terms, values } = givenTerms([
        ['instr(lower(coalesce(name, id)), lower(?)) > 0', text],
        ['created_at >= ?', since],
        ['created_at < ?', until],
        ['status = ?', status],
        ['token_id = ?', ownerId],
        ['no < ?', cursor === undefined ? undefined : Number(cursor)],
      ])
      const where = terms.length === 0 ? '' : `WHERE ${terms.join(' AND ')}`
      const sql = `SELECT ${LISTED} FROM workflows ${where} ORDER BY no DESC LIMIT ?`
      return readPage(database.all<WorkflowRow>(sql, ...values, limit + 1), limit, (row) => {
        const item = read(row)
        return { item, no: row.no, length: item.steps.reduce((sum, { input }) => sum + input.length, 0) }
      })
    },
    unfinished: () => database.all<{ id: string }>(UNFINISHED).map(({ id }) => id),
    orders: (id) =>
      database
        .all<{ id: string; step_id: string }>('SELECT id, step_id FROM orders WHERE workflow_id = ? ORDER BY no', id)
        .map((row) => ({ id: row.id, stepId: row.step_id })),
    spending(id) {
      const { sure, perhaps } = database.one<{ sure: number; perhaps: number }>(SPENDING, id)!
      return { sure: BigInt(sure), perhaps: BigInt(perhaps) }
    },
    books: (id) => workflowBooks(database, id),
  }
}

type WrittenPlan = Omit<StepPlan, 'id' | 'maxPrice'> & { maxPrice?: string }

function writePlan({ agents, input, dependsOn, maxPrice, retries, rebuy }: StepPlan): string {
  const plan: WrittenPlan = { agents, input, dependsOn, retries, rebuy }
  return JSON.stringify({ ...plan, ...(maxPrice !== undefined && { maxPrice: maxPrice.toString() }) })
}

function toStep({ plan: written, ...row }: StepRow): StoredStep {
  const { maxPrice, ...plan } = JSON.parse(written) as WrittenPlan
  return {
    ...row,
    ...plan,
    maxPrice: maxPrice === undefined ? undefined : BigInt(maxPrice),
    price: BigInt(row.price),
    orderId: row.orderId ?? undefined,
    error: row.error === null ? undefined : (JSON.parse(row.error) as OrderError),
    refusedAt: row.refusedAt ?? undefined,
    startedAt: row.startedAt ?? undefined,
    endedAt: row.endedAt ?? undefined,
  }
}
