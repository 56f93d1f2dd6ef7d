import type { UnixMs } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { type Entry, entry, putEntry } from './entries.ts'
import { IS_UNSIGNED } from './idempotency.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { LEFT_BEHIND } from './ownership.ts'
import { one, type Query, run, together } from './query.ts'

/*
 * A ledger counts how often it was opened and closed, and the mark beside it (ledger-mark.ts) keeps the last count. A ledger
 * that has counted less than its mark is an older copy: a backup was put back.
 */

export const TURN_KEY = 'ledger_turn'
const RESTORED_KEY = 'ledger_restored_at'
/** A restored ledger counts on far above the marks of all processes, so that only the first one finds it restored. */
const RESTORED_STEP = 1_000_000
const COUNT = `
  INSERT INTO kv (key, value) VALUES (?, ?)
  ON CONFLICT (key) DO UPDATE SET value = CAST(CAST(kv.value AS BIGINT) + ? AS TEXT) RETURNING value`

/** Nothing says whether these were bought after the backup. An order that was signed has an outcome, and asks for it. */
const endOrders = (which: string) => `
  UPDATE orders SET status = 'failed', error = ?, updated_at = ?
  WHERE status IN ('pending', 'executing') AND task IS NOT NULL AND cancel_requested_at IS NULL
    AND ${IS_UNSIGNED} AND ${LEFT_BEHIND}${which}`
const openWorkflows = (which: string) => `status IN ('pending', 'running') AND ${LEFT_BEHIND}${which}`
const skipSteps = (which: string) => `
  UPDATE workflow_steps SET status = 'skipped', ended_at = ?
  WHERE status = 'pending' AND workflow_no IN (SELECT no FROM workflows WHERE ${openWorkflows(which)})`
const endWorkflows = (which: string) => `
  UPDATE workflows SET status = 'canceled', updated_at = ?, revision = revision + 1 WHERE ${openWorkflows(which)}`
/** As they were in the backup. Null, so false, if the ledger was never restored. */
const OF_BACKUP = ` AND updated_at <= (SELECT CAST(value AS BIGINT) FROM kv WHERE key = '${RESTORED_KEY}')`
const UNSURE = JSON.stringify({
  code: 'LEDGER_RESTORED',
  message:
    'the ledger was restored from a backup, and this order may have been bought after the backup was made: place it again if it was not',
  retryable: false,
})

/** `ended`: orders and workflows of a restored ledger that were ended. */
type Turn = { turn: number; restored?: { ended: number } }

/**
 * Counts that a ledger was opened.
 *
 * In a restored ledger it ends the orders that nobody has signed for, and the workflows: they would be bought again.
 *
 * @param marked the count that the mark has. Undefined: it has none
 * @param isReplaced the ledger is an older copy, whatever the counts say
 */
export async function takeTurn(
  database: LedgerDatabase,
  { marked = 0, isReplaced = false, now }: { marked?: number | undefined; isReplaced?: boolean; now: UnixMs },
): Promise<Turn> {
  const stored = await readTurn(database)
  if (!isReplaced && stored >= marked) return { turn: await database.commit(count(1)) }
  const steps = Math.max(0, marked - stored) + RESTORED_STEP
  const [turn, , orders, , workflows] = await database.commit(
    together(
      count(steps),
      putEntry(RESTORED_KEY, String(now)),
      run(endOrders(''), UNSURE, now),
      run(skipSteps(''), now),
      run(endWorkflows(''), now),
    ),
  )
  return { turn, restored: { ended: orders + workflows } }
}

/** Counts that a ledger is closed. @returns undefined if it cannot be written */
export function endTurn(database: LedgerDatabase): Promise<number | undefined> {
  return database.commit(count(1)).catch(() => undefined)
}

/**
 * Counts on, and keeps the count in the mark. A count below the last one shows that a backup was put back beneath this process: then
 * the mark goes far above it, so that the next start finds the ledger restored.
 *
 * @param last the count that the mark has
 */
export function createTurns(
  database: LedgerDatabase,
  { last, logger, write }: { last: number; logger: Logger; write(turn: number): Promise<void> },
): { next(): Promise<void> } {
  let marked = last
  let isReplaced = false
  return {
    async next() {
      const turn = await endTurn(database)
      if (turn === undefined || isReplaced) return
      isReplaced = turn <= marked
      if (isReplaced) logger.error({}, REPLACED_TEXT)
      marked = isReplaced ? marked + RESTORED_STEP : turn
      await write(marked)
    },
  }
}

/** 0: the ledger is new, or was used only by versions that did not count. */
export async function readTurn(database: Pick<LedgerDatabase, 'query'>): Promise<number> {
  return Number((await database.query(entry(TURN_KEY))) ?? 0)
}

/** When this ledger was found restored the last time. */
export async function readRestored(database: Pick<LedgerDatabase, 'query'>): Promise<UnixMs | undefined> {
  const at = await database.query(entry(RESTORED_KEY))
  return at === undefined ? undefined : Number(at)
}

/**
 * Ends the orders of a backup whose process has ended. A backup in PostgreSQL may name processes that were alive when it was made:
 * their leases have not run out when the first process finds it.
 */
export function endOrdersOfBackup(now: UnixMs): Query<number> {
  return run(endOrders(OF_BACKUP), UNSURE, now)
}

/** The same for workflows. */
export function endWorkflowsOfBackup(now: UnixMs): Query<unknown> {
  return together(run(skipSteps(OF_BACKUP), now), run(endWorkflows(OF_BACKUP), now))
}

const REPLACED_TEXT =
  'a backup of the ledger was put back while this node ran. It may buy and pay again what it has bought since the backup: stop all ' +
  'processes of this seller, and start them again'

/** For the log. */
export const RESTORED_TEXT =
  'the ledger was restored from a backup. It does not know what was bought, sold, refunded or sent after the backup. Orders without a ' +
  'signed payment and open workflows were ended, because they may have been bought already'

function count(steps: number): Query<number> {
  return one<Entry>(COUNT, TURN_KEY, String(steps), steps).map((row) => Number(row!.value))
}
