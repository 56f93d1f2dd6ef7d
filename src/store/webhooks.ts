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

const COUNT = 'SELECT count(*) AS n FROM webhook_deliveries WHERE webhook_id = ?'
const DUE = `
  SELECT no, id, webhook_id AS webhookId, body, attempts, next_attempt_at AS nextAttemptAt FROM webhook_deliveries
  WHERE webhook_id = ? AND next_attempt_at <= ? ORDER BY next_attempt_at, no LIMIT 1`
const DROP_OLDEST = `
  DELETE FROM webhook_deliveries WHERE no IN (SELECT no FROM webhook_deliveries WHERE webhook_id = ? ORDER BY no LIMIT ?)`

const DROP_OTHERS = 'DELETE FROM webhook_deliveries WHERE webhook_id NOT IN (SELECT value FROM json_each(?))'

export function createWebhookStore(database: Database): WebhookStore {
  const pending = (id: string) => database.one<{ n: number }>(COUNT, id)!.n
  return {
    all: () =>
      database.all<WebhookRow>('SELECT * FROM webhooks ORDER BY created_at, id').map((row) => ({
        id: row.id,
        url: row.url,
        events: JSON.parse(row.events) as string[],
        secret: row.secret,
        createdAt: row.created_at,
      })),
    add: ({ id, url, events, secret, createdAt }, countMax) =>
      database.write(() => {
        const { n } = database.one<{ n: number }>('SELECT count(*) AS n FROM webhooks')!
        if (n >= countMax) return false
        database.run(
          'INSERT INTO webhooks (id, url, events, secret, created_at) VALUES (?, ?, ?, ?, ?)',
          id,
          url,
          JSON.stringify(events),
          secret,
          createdAt,
        )
        return true
      }),
    remove: (id) =>
      database.write(() => {
        database.run('DELETE FROM webhook_deliveries WHERE webhook_id = ?', id)
        database.run('DELETE FROM webhooks WHERE id = ?', id)
      }),
    enqueue: (deliveries, waitingMax) =>
      database.write(() => {
        const dropped = new Map<string, number>()
        for (const { id, webhookId, body, now } of deliveries) {
          const over = pending(webhookId) + 1 - waitingMax
          if (over > 0) {
            database.run(DROP_OLDEST, webhookId, over)
            dropped.set(webhookId, (dropped.get(webhookId) ?? 0) + over)
          }
          database.run(
            'INSERT INTO webhook_deliveries (id, webhook_id, body, next_attempt_at) VALUES (?, ?, ?, ?)',
            id,
            webhookId,
            body,
            now,
          )
        }
        return dropped
      }),
    due(webhookId, now) {
      return database.one<Delivery>(DUE, webhookId, now)
    },
    nextDueAt(webhookId) {
      const sql = 'SELECT min(next_attempt_at) AS at FROM webhook_deliveries WHERE webhook_id = ?'
      return database.one<{ at: number | null }>(sql, webhookId)!.at ?? undefined
    },
    pending,
    retry: (no, nextAttemptAt) =>
      database.writeOne(
        'UPDATE webhook_deliveries SET attempts = attempts + 1, next_attempt_at = ? WHERE no = ?',
        nextAttemptAt,
        no,
      ),
    done: (no) => database.writeOne('DELETE FROM webhook_deliveries WHERE no = ?', no),
    keepOnly: (ids) => database.writeOne(DROP_OTHERS, JSON.stringify(ids)),
  }
}
