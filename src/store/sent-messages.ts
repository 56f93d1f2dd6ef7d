import type { UnixMs } from '../lib/clock.ts'
import { KEY_HOURS } from '../schema/limits.ts'
import type { Database } from './database.ts'
import type { RunTime } from './run-time.ts'

/** A message, named by its token, its agent and its id. */
type MessageName = { tokenId: string | undefined; agentId: string; messageId: string }
type StoredMessage = { hash: Uint8Array; taskId: string }
/** How a task ended that left no exchange. */
type TaskEnd = { state: 'failed' | 'canceled'; text: string; at: UnixMs }
export type EndedTask = TaskEnd & { tokenId: string | undefined; contextId: string }

/** A2A messages whose tasks have begun, kept while their ids name them (D38). */
export interface SentMessageStore {
  find(name: MessageName): StoredMessage | undefined
  /** Durable when it resolves, so before the task runs. */
  put(name: MessageName, message: StoredMessage & { contextId: string }): Promise<void>
  /** Notes how a task ended that leaves no exchange. */
  end(taskId: string, ended: TaskEnd): Promise<void>
  ended(agentId: string, taskId: string): EndedTask | undefined
  /** Removes expired messages. */
  purge(): Promise<void>
}

/** How long an id names the same message (D38), in run time of the node. */
export const MESSAGE_LIFE_MS = KEY_HOURS * 60 * 60 * 1000
/** Messages per principal, about 300 bytes each. Beyond it the oldest are dropped: nobody fills the disk (T19). */
const MESSAGES_MAX = 100_000
/** Characters kept of the final text of a task. */
const TEXT_LENGTH_MAX = 2_000
/** Messages stored between two trims. */
const LOOK_EVERY = 1_000

const FIND = `
  SELECT hash, task_id AS taskId FROM sent_messages
  WHERE token_id = ? AND agent_id = ? AND message_id = ? AND run_ms > ?`
const PUT = `
  INSERT OR REPLACE INTO sent_messages (token_id, agent_id, message_id, hash, task_id, context_id, run_ms)
  VALUES (?, ?, ?, ?, ?, ?, ?)`
const TRIM = `
  DELETE FROM sent_messages WHERE token_id = ?1 AND no <=
    (SELECT no FROM sent_messages WHERE token_id = ?1 ORDER BY no DESC LIMIT 1 OFFSET ?2)`
const ENDED = `
  SELECT token_id AS tokenId, context_id AS contextId, ended FROM sent_messages
  WHERE task_id = ? AND agent_id = ? AND ended IS NOT NULL ORDER BY no DESC LIMIT 1`

export function createSentMessageStore(
  database: Database,
  runTime: RunTime,
  { messagesMax = MESSAGES_MAX, lookEvery = LOOK_EVERY } = {},
): SentMessageStore {
  let puts = 0
  return {
    find: ({ tokenId = '', agentId, messageId }) =>
      database.one(FIND, tokenId, agentId, messageId, runTime.now() - MESSAGE_LIFE_MS) as StoredMessage | undefined,
    put: ({ tokenId = '', agentId, messageId }, { hash, taskId, contextId }) =>
      database.write(() => {
        const now = runTime.now()
        database.run(PUT, tokenId, agentId, messageId, hash, taskId, contextId, now)
        if (++puts % lookEvery === 0) database.run(TRIM, tokenId, messagesMax)
      }),
    end: (taskId, { text, ...ended }) =>
      database.write(() => {
        const kept = JSON.stringify({ ...ended, text: text.slice(0, TEXT_LENGTH_MAX) })
        database.run('UPDATE sent_messages SET ended = ? WHERE task_id = ?', kept, taskId)
      }),
    ended(agentId, taskId) {
      type Row = { tokenId: string; contextId: string; ended: string }
      const row = database.one<Row>(ENDED, taskId, agentId)
      if (row === undefined) return undefined
      const tokenId = row.tokenId === '' ? undefined : row.tokenId
      return { ...(JSON.parse(row.ended) as TaskEnd), tokenId, contextId: row.contextId }
    },
    purge: () => database.writeOne('DELETE FROM sent_messages WHERE run_ms <= ?', runTime.now() - MESSAGE_LIFE_MS),
  }
}
