import type { UnixMs } from '../lib/clock.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { all, lock, one, run, steps, together } from './query.ts'

export type StoredWebhook = { id: string; url: string; events: string[]; secret: string; createdAt: UnixMs }
/** A message that this process sends now. `leasedUntil` names its lease. */
export type Delivery = {
  no: number
  id: string
  webhookId: string
  body: string
  attempts: number
  leasedUntil: UnixMs
}
/** `event`: what the message reports. It is queued once for each webhook. */
type NewDelivery = { id: string; webhookId: string; body: string; now: UnixMs; event?: string | undefined }

/** The registered webhooks, and their undelivered messages. */
export interface WebhookStore {
  all(): Promise<StoredWebhook[]>
  /** False: there are `countMax` webhooks already. */
  add(webhook: StoredWebhook, countMax: number): Promise<boolean>
  /** Removes a webhook and its waiting messages. */
  remove(id: string): Promise<void>
  /**
   * Queues messages, up to `waitingMax` per webhook: beyond it the oldest are dropped, those about listings before all others.
   * @returns how many were dropped
   */
  enqueue(deliveries: readonly NewDelivery[], waitingMax: number): Promise<Map<string, number>>
  /**
   * Takes the next due message. Until the lease ends, no other process takes a message of this webhook, so that they keep
   * their order. Processes that share the ledger go by the clock of the database; `now` counts for one that is alone.
   */
  take(webhookId: string, lease: { now: UnixMs; until: UnixMs }): Promise<Delivery | undefined>
  /** The time in ms until a message may be taken. Undefined: none waits. */
  dueInMs(webhookId: string, now: UnixMs): Promise<number | undefined>
  /** How many messages wait, by webhook. */
  pending(): Promise<Map<string, number>>
  /** Ends the lease after a failed attempt. Changes nothing if the lease has passed to another process. */
  retry(delivery: Delivery, next: { now: UnixMs; waitMs: number }): Promise<void>
  /** Ends the lease without an attempt. */
  giveBack(delivery: Delivery, now: UnixMs): Promise<void>
  done(no: number): Promise<void>
  /** Deletes messages of webhooks that are neither registered nor among these. */
  keepOnly(configuredIds: readonly string[]): Promise<void>
}

type WebhookRow = { id: string; url: string; events: string; secret: string; created_at: number }
type DeliveryRow = { no: number; id: string; body: string; attempts: number; leasedUntil: UnixMs }
type DueRow = { dueIn: number | null; leasedFor: number | null }

/** Run under the lock `webhooks`. */
const ADD = `
  INSERT INTO webhooks (id, url, events, secret, created_at)
  SELECT CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS BIGINT)
  WHERE (SELECT count(*) FROM webhooks) < ?`
const insertAt = (now: string) => `
  INSERT INTO webhook_deliveries (id, webhook_id, body, event, next_attempt_at) VALUES (?1, ?2, ?3, ?4, ${now})
  ON CONFLICT (webhook_id, event) DO NOTHING`
/**
 * Messages about listings go first: strangers bring as many of them about as they like. The order is read only beyond the limit,
 * and not from long messages, which SQLite would read whole.
 */
const DROP_OLDEST = `
  DELETE FROM webhook_deliveries WHERE no IN (
    SELECT no FROM webhook_deliveries WHERE webhook_id = ?1
    ORDER BY CASE WHEN octet_length(body) < 32768 AND substr(body, 1, 16) = '{"type":"listing' THEN 0 ELSE 1 END, no
    LIMIT (SELECT CASE WHEN count(*) > ?2 THEN count(*) - ?2 ELSE 0 END FROM webhook_deliveries WHERE webhook_id = ?1))`
/** The condition on the time is checked again after a wait for another process that takes the same message. */
const takeAt = (now: string) => `
  UPDATE webhook_deliveries SET next_attempt_at = ${now} + ?1, leased_until = ${now} + ?1
  WHERE no = (SELECT no FROM webhook_deliveries WHERE webhook_id = ?2 AND next_attempt_at <= ${now}
              ORDER BY next_attempt_at, no LIMIT 1)
    AND next_attempt_at <= ${now}
    AND NOT EXISTS (SELECT 1 FROM webhook_deliveries other
      WHERE other.webhook_id = ?2 AND other.leased_until IS NOT NULL AND other.leased_until > ${now})
  RETURNING no, id, body, attempts, next_attempt_at AS "leasedUntil"`
const retryAt = (now: string) => `
  UPDATE webhook_deliveries SET attempts = attempts + ?1, next_attempt_at = ${now} + ?2, leased_until = NULL
  WHERE no = ?3 AND next_attempt_at = ?4`
const dueAt = (now: string) => `
  SELECT min(next_attempt_at) - ${now} AS "dueIn", max(leased_until) - ${now} AS "leasedFor"
  FROM webhook_deliveries WHERE webhook_id = ?1`

export function createWebhookStore(database: LedgerDatabase): WebhookStore {
  /** The time of the database, if processes share it; else the time that is the value at this place. */
  const timeAt = (place: number) => `coalesce(${database.time ?? 'NULL'}, CAST(?${place} AS BIGINT))`
  const INSERT = insertAt(timeAt(5))
  const TAKE = takeAt(timeAt(3))
  const RETRY = retryAt(timeAt(5))
  const DUE = dueAt(timeAt(2))
  const again = async (
    { no, leasedUntil }: Delivery,
    attempts: number,
    { now, waitMs }: { now: UnixMs; waitMs: number },
  ) => void (await database.commit(run(RETRY, attempts, waitMs, no, leasedUntil, now)))
  return {
    async all() {
      const rows = await database.query(all<WebhookRow>('SELECT * FROM webhooks ORDER BY created_at, id'))
      return rows.map(({ id, url, events, secret, created_at: createdAt }) => {
        return { id, url, events: JSON.parse(events) as string[], secret, createdAt }
      })
    },
    add: ({ id, url, events, secret, createdAt }, countMax) =>
      database.commit(
        steps(function* () {
          yield* lock('webhooks')
          return (yield* run(ADD, id, url, JSON.stringify(events), secret, createdAt, countMax)) === 1
        }),
        { record: 'webhook', id },
      ),
    async remove(id) {
      await database.commit(
        together(
          run('DELETE FROM webhook_deliveries WHERE webhook_id = ?', id),
          run('DELETE FROM webhooks WHERE id = ?', id),
        ),
        { record: 'webhook', id },
      )
    },
    async enqueue(deliveries, waitingMax) {
      const each = deliveries.map(({ id, webhookId, body, now, event = null }) =>
        together(run(INSERT, id, webhookId, body, event, now), run(DROP_OLDEST, webhookId, waitingMax)),
      )
      const changes = await database.commit(together(...each))
      const dropped = new Map<string, number>()
      for (const [index, [, count]] of changes.entries()) {
        const { webhookId } = deliveries[index]!
        if (count > 0) dropped.set(webhookId, (dropped.get(webhookId) ?? 0) + count)
      }
      return dropped
    },
    async take(webhookId, { now, until }) {
      const row = await database.commit(one<DeliveryRow>(TAKE, until - now, webhookId, now))
      return row && { ...row, webhookId }
    },
    async dueInMs(webhookId, now) {
      const row = (await database.query(one<DueRow>(DUE, webhookId, now)))!
      return row.dueIn === null ? undefined : Math.max(0, row.dueIn, row.leasedFor ?? 0)
    },
    async pending() {
      const sql = 'SELECT webhook_id AS id, count(*) AS n FROM webhook_deliveries GROUP BY webhook_id'
      const rows = await database.query(all<{ id: string; n: number }>(sql))
      return new Map(rows.map(({ id, n }) => [id, n]))
    },
    retry: (delivery, next) => again(delivery, 1, next),
    giveBack: (delivery, now) => again(delivery, 0, { now, waitMs: 0 }),
    async done(no) {
      await database.commit(run('DELETE FROM webhook_deliveries WHERE no = ?', no))
    },
    async keepOnly(configuredIds) {
      const others = configuredIds.map(() => ' AND webhook_id <> ?').join('')
      const sql = `DELETE FROM webhook_deliveries WHERE webhook_id NOT IN (SELECT id FROM webhooks)${others}`
      await database.commit(run(sql, ...configuredIds))
    },
  }
}
