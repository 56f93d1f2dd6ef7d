import type { UnixMs } from '../lib/clock.ts'
import type { Database } from './database.ts'

export type StoredWebhook = { id: string; url: string; events: string[]; secret: string; createdAt: UnixMs }
export type Delivery = {
  no: number
  id: string
  webhookId: string
  body: string
  attempts: number
  nextAttemptAt: UnixMs
}
type NewDelivery = { id: string; webhookId: string; body: string; now: UnixMs }

/** The registered webhooks, and their undelivered messages. */
export interface WebhookStore {
  all(): StoredWebhook[]
  /** False: there are `countMax` webhooks already. */
  add(webhook: StoredWebhook, countMax: number): Promise<boolean>
  /** Removes a webhook and its waiting messages. */
  remove(id: string): Promise<void>
  /**
   * Queues messages, up to `waitingMax` per webhook: beyond it the oldest are dropped. @returns how many were dropped
   */
  enqueue(deliveries: readonly NewDelivery[], waitingMax: number): Promise<Map<string, number>>
  /** The next due message. */
  due(webhookId: string, now: UnixMs): Delivery | undefined
  nextDueAt(webhookId: string): UnixMs | undefined
  pending(webhookId: string): number
  retry(no: number, nextAttemptAt: UnixMs): Promise<void>
  done(no: number): Promise<void>
  /** Deletes messages of webhooks that no longer exist. */
  keepOnly(webhookIds: readonly string[]): Promise<void>
}

type WebhookRow = { id: string; url: string; events: string; secret: string; created_at: number }
type DeliveryRow = {
  no: number
  id: string
  webhook_id: string
  body: string
  attempts: number
  next_attempt_at: number
}

const COUNT = 'SELECT count(*) AS n FROM webhook_deliveries WHERE webhook_id = ?'
const DROP_OLDEST = `
  DELETE FROM webhook_deliveries WHERE no IN (SELECT no FROM webhook_deliveries WHERE webhook_id = ? ORDER BY no LIMIT ?)`

export function createWebhookStore(database: Database): WebhookStore {
  const run = (sql: string, ...values: (string | number)[]) =>
    database.write(() => {
      database.prepare(sql).run(...values)
    })
  const pending = (id: string) => (database.prepare(COUNT).get(id) as { n: number }).n
  return {
    all: () =>
      (database.prepare('SELECT * FROM webhooks ORDER BY created_at, id').all() as WebhookRow[]).map((row) => ({
        id: row.id,
        url: row.url,
        events: JSON.parse(row.events) as string[],
        secret: row.secret,
        createdAt: row.created_at,
      })),
    add: ({ id, url, events, secret, createdAt }, countMax) =>
      database.write(() => {
        const { n } = database.prepare('SELECT count(*) AS n FROM webhooks').get() as { n: number }
        if (n >= countMax) return false
        database
          .prepare('INSERT INTO webhooks (id, url, events, secret, created_at) VALUES (?, ?, ?, ?, ?)')
          .run(id, url, JSON.stringify(events), secret, createdAt)
        return true
      }),
    remove: (id) =>
      database.write(() => {
        database.prepare('DELETE FROM webhook_deliveries WHERE webhook_id = ?').run(id)
        database.prepare('DELETE FROM webhooks WHERE id = ?').run(id)
      }),
    enqueue: (deliveries, waitingMax) =>
      database.write(() => {
        const dropped = new Map<string, number>()
        for (const { id, webhookId, body, now } of deliveries) {
          const over = pending(webhookId) + 1 - waitingMax
          if (over > 0) {
            database.prepare(DROP_OLDEST).run(webhookId, over)
            dropped.set(webhookId, (dropped.get(webhookId) ?? 0) + over)
          }
          database
            .prepare('INSERT INTO webhook_deliveries (id, webhook_id, body, next_attempt_at) VALUES (?, ?, ?, ?)')
            .run(id, webhookId, body, now)
        }
        return dropped
      }),
    due(webhookId, now) {
      const row = database
        .prepare(
          `SELECT * FROM webhook_deliveries WHERE webhook_id = ? AND next_attempt_at <= ?
           ORDER BY next_attempt_at, no LIMIT 1`,
        )
        .get(webhookId, now) as DeliveryRow | undefined
      return row && toDelivery(row)
    },
    nextDueAt(webhookId) {
      const sql = 'SELECT min(next_attempt_at) AS at FROM webhook_deliveries WHERE webhook_id = ?'
      return (database.prepare(sql).get(webhookId) as { at: number | null }).at ?? undefined
    },
    pending,
    retry: (no, nextAttemptAt) =>
      run('UPDATE webhook_deliveries SET attempts = attempts + 1, next_attempt_at = ? WHERE no = ?', nextAttemptAt, no),
    done: (no) => run('DELETE FROM webhook_deliveries WHERE no = ?', no),
    keepOnly: (ids) =>
      run(
        `DELETE FROM webhook_deliveries WHERE webhook_id NOT IN (SELECT value FROM json_each(?))`,
        JSON.stringify(ids),
      ),
  }
}

function toDelivery(row: DeliveryRow): Delivery {
  return {
    no: row.no,
    id: row.id,
    webhookId: row.webhook_id,
    body: row.body,
    attempts: row.attempts,
    nextAttemptAt: row.next_attempt_at,
  }
}
