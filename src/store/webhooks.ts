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
type NewDelivery = { id: string; webhookId: string; body: string; now: UnixMs }

/** The registered webhooks, and their undelivered messages. */
export interface WebhookStore {
  all(): Promise<StoredWebhook[]>
  /** False: there are `countMax` webhooks already. */
  add(webhook: StoredWebhook, countMax: number): Promise<boolean>
  /** Removes a webhook and its waiting messages. */
  remove(id: string): Promise<void>
  /**
   * Queues messages, up to `waitingMax` per webhook: beyond it the oldest are dropped. @returns how many were dropped
   */
  enqueue(deliveries: readonly NewDelivery[], waitingMax: number): Promise<Map<string, number>>
  /** Takes the next due message. Until the lease ends, no other process takes it. */
  take(webhookId: string, lease: { now: UnixMs; until: UnixMs }): Promise<Delivery | undefined>
  nextDueAt(webhookId: string): Promise<UnixMs | undefined>
  /** How many messages wait, by webhook. */
  pending(): Promise<Map<string, number>>
  /** Ends the lease after a failed attempt. Changes nothing if the lease has passed to another process. */
  retry(delivery: Delivery, nextAttemptAt: UnixMs): Promise<void>
  /** Ends the lease without an attempt. */
  giveBack(delivery: Delivery, now: UnixMs): Promise<void>
  done(no: number): Promise<void>
  /** Deletes messages of webhooks that are neither registered nor among these. */
  keepOnly(configuredIds: readonly string[]): Promise<void>
}

type WebhookRow = { id: string; url: string; events: string; secret: string; created_at: number }
type DeliveryRow = { no: number; id: string; body: string; attempts: number }

/** Run under the lock `webhooks`. */
const ADD = `
  INSERT INTO webhooks (id, url, events, secret, created_at)
  SELECT CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS BIGINT)
  WHERE (SELECT count(*) FROM webhooks) < ?`
const INSERT = 'INSERT INTO webhook_deliveries (id, webhook_id, body, next_attempt_at) VALUES (?, ?, ?, ?)'
const DROP_OLDEST = `
  DELETE FROM webhook_deliveries WHERE webhook_id = ?1 AND no <=
    (SELECT no FROM webhook_deliveries WHERE webhook_id = ?1 ORDER BY no DESC LIMIT 1 OFFSET ?2)`
/** The last condition is checked again after a wait for another process that takes the same message. */
const TAKE = `
  UPDATE webhook_deliveries SET next_attempt_at = ?1
  WHERE no = (SELECT no FROM webhook_deliveries WHERE webhook_id = ?2 AND next_attempt_at <= ?3
              ORDER BY next_attempt_at, no LIMIT 1)
    AND next_attempt_at <= ?3
  RETURNING no, id, body, attempts`
const RETRY = `
  UPDATE webhook_deliveries SET attempts = attempts + 1, next_attempt_at = ? WHERE no = ? AND next_attempt_at = ?`
const GIVE_BACK = 'UPDATE webhook_deliveries SET next_attempt_at = ? WHERE no = ? AND next_attempt_at = ?'

export function createWebhookStore(database: LedgerDatabase): WebhookStore {
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
      const each = deliveries.map(({ id, webhookId, body, now }) =>
        together(run(INSERT, id, webhookId, body, now), run(DROP_OLDEST, webhookId, waitingMax)),
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
      const row = await database.commit(one<DeliveryRow>(TAKE, until, webhookId, now))
      return row && { ...row, webhookId, leasedUntil: until }
    },
    async nextDueAt(webhookId) {
      const sql = 'SELECT min(next_attempt_at) AS at FROM webhook_deliveries WHERE webhook_id = ?'
      return (await database.query(one<{ at: number | null }>(sql, webhookId)))!.at ?? undefined
    },
    async pending() {
      const sql = 'SELECT webhook_id AS id, count(*) AS n FROM webhook_deliveries GROUP BY webhook_id'
      const rows = await database.query(all<{ id: string; n: number }>(sql))
      return new Map(rows.map(({ id, n }) => [id, n]))
    },
    async retry({ no, leasedUntil }, nextAttemptAt) {
      await database.commit(run(RETRY, nextAttemptAt, no, leasedUntil))
    },
    async giveBack({ no, leasedUntil }, now) {
      await database.commit(run(GIVE_BACK, now, no, leasedUntil))
    },
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
