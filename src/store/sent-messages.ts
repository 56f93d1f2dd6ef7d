import type { UnixMs } from '../lib/clock.ts'
import { STRANGER, strangerDigest, strangerWith } from '../schema/caller.ts'
import { KEY_HOURS } from '../schema/limits.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { LEFT_BEHIND } from './ownership.ts'
import { all, nothing, one, run, together } from './query.ts'
import { RUN_TIME_APART_MS, type RunTime } from './run-time.ts'

/** A message, named by its token, its agent and its id. */
export type MessageName = { tokenId: string | undefined; agentId: string; messageId: string }
type StoredMessage = { hash: Uint8Array; taskId: string }
/** How a task ended that left no exchange. */
export type TaskEnd = { state: 'failed' | 'canceled'; text: string; at: UnixMs }
/** A task that needs its caller: the text of its first message, and what its caller is asked. */
export type TaskWait = { input: string; text: string; metadata: Record<string, unknown> | undefined; at: UnixMs }
type BegunTask = { tokenId: string | undefined; contextId: string }
export type EndedTask = TaskEnd & BegunTask
export type WaitingTask = TaskWait & BegunTask

/** A2A messages whose tasks have begun, kept while their ids name them (D38). */
export interface SentMessageStore {
  find(name: MessageName): Promise<StoredMessage | undefined>
  /**
   * Durable when it resolves, so before the task runs. `lost`: the task that this one replaces. @returns false if the
   * id names another task already: another process was first
   */
  put(name: MessageName, message: StoredMessage & { contextId: string }, lost?: string): Promise<boolean>
  /** Notes how a task ended that leaves no exchange. */
  end(taskId: string, ended: TaskEnd): Promise<void>
  ended(agentId: string, taskId: string): Promise<EndedTask | undefined>
  /**
   * Notes that this process does not work on a task now, although the task has not ended. `wait`: what it needs of its
   * caller, who may answer after a restart, or another process that shares the ledger. Kept only if it is short.
   */
  rest(taskId: string, wait?: TaskWait): Promise<void>
  /** A task that needs its caller, of any process. */
  waiting(agentId: string, taskId: string): Promise<WaitingTask | undefined>
  /** The ids of the tasks of an agent, newest first. `tokenId` null: of all principals. */
  tasks(agentId: string, tokenId: string | null, limit: number): Promise<string[]>
  /** A task on which another process works that is alive. Its exchange may be stored already. */
  elsewhere(agentId: string, taskId: string): Promise<BegunTask | undefined>
  /** Asks the process that works on a task to cancel it. */
  askCancel(taskId: string): Promise<void>
  /** Removes expired messages. */
  purge(): Promise<void>
}

/** How long an id names the same message (D38), in run time of the node. */
export const MESSAGE_LIFE_MS = KEY_HOURS * 60 * 60 * 1000 + RUN_TIME_APART_MS
/** Messages per principal, about 300 bytes each. Beyond it the oldest are dropped: nobody fills the disk (T19). */
const MESSAGES_MAX = 100_000
/** Characters kept of the final text of a task. */
const TEXT_LENGTH_MAX = 2_000
/** Bytes of a task that waits. A longer one is known to the process that asked its caller, and to no other. */
const WAIT_BYTES_MAX = 64 * 1024
/** Tasks of a principal that wait. Beyond it the oldest are known to the process alone that asked. */
const WAITS_MAX = 1_000
/** Messages stored between two trims. */
const LOOK_EVERY = 1_000

const FIND = `
  SELECT hash, task_id FROM sent_messages
  WHERE token_id = ? AND agent_id = ? AND message_id = ? AND run_ms > ?`
/**
 * Frees an id whose task is lost and that no other living process works on. The new row gets a new number, by which the oldest
 * are found.
 */
const FREE = `
  DELETE FROM sent_messages
  WHERE token_id = ? AND agent_id = ? AND message_id = ?
    AND (run_ms <= ? OR (task_id = ? AND (owner = ? OR ${LEFT_BEHIND})))`
/** Of two processes, the second waits for the first to commit and then finds the id taken. */
const PUT = `
  INSERT INTO sent_messages (token_id, agent_id, message_id, hash, task_id, context_id, owner, run_ms)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (token_id, agent_id, message_id) DO NOTHING`
const TRIM = `
  DELETE FROM sent_messages WHERE token_id = ?1 AND no <=
    (SELECT no FROM sent_messages WHERE token_id = ?1 ORDER BY no DESC LIMIT 1 OFFSET ?2)`
const ELSEWHERE = `
  SELECT token_id, message_id, context_id FROM sent_messages
  WHERE task_id = ? AND agent_id = ? AND ended IS NULL AND owner <> ? AND NOT ${LEFT_BEHIND} ORDER BY no DESC LIMIT 1`
const REST = 'UPDATE sent_messages SET owner = NULL, waits = ? WHERE task_id = ?'
const TRIM_WAITS = `
  UPDATE sent_messages SET waits = NULL WHERE waits IS NOT NULL
    AND token_id = (SELECT token_id FROM sent_messages WHERE task_id = ?1 LIMIT 1) AND no <=
    (SELECT w.no FROM sent_messages w WHERE w.waits IS NOT NULL
      AND w.token_id = (SELECT token_id FROM sent_messages WHERE task_id = ?1 LIMIT 1) ORDER BY w.no DESC LIMIT 1 OFFSET ?2)`
/** Notes that a task works again. A task that may be paid for never asks for a payment after a crash. */
const RESUME = 'UPDATE sent_messages SET waits = NULL WHERE task_id = ? AND waits IS NOT NULL'
const WAITING = `
  SELECT token_id, message_id, context_id, waits FROM sent_messages
  WHERE task_id = ? AND agent_id = ? AND ended IS NULL AND waits IS NOT NULL AND run_ms > ? ORDER BY no DESC LIMIT 1`
const TASKS = `
  SELECT task_id FROM sent_messages WHERE agent_id = ?1 AND (CAST(?2 AS TEXT) IS NULL OR token_id = ?2) AND run_ms > ?3
  GROUP BY task_id ORDER BY max(no) DESC LIMIT ?4`
const ENDED = `
  SELECT token_id, message_id, context_id, ended FROM sent_messages
  WHERE task_id = ? AND agent_id = ? AND ended IS NOT NULL ORDER BY no DESC LIMIT 1`

export function createSentMessageStore(
  database: LedgerDatabase,
  runTime: RunTime,
  { messagesMax = MESSAGES_MAX, lookEvery = LOOK_EVERY, waitsMax = WAITS_MAX } = {},
): SentMessageStore {
  let puts = 0
  const isShared = database.time !== undefined
  const owner = isShared ? database.process : null
  return {
    async find(name) {
      type Row = { hash: Uint8Array; task_id: string }
      const oldest = runTime.now() - MESSAGE_LIFE_MS
      const row = await database.query(one<Row>(FIND, ...columnsOf(name), oldest))
      return row && { hash: row.hash, taskId: row.task_id }
    },
    async put(message, { hash, taskId, contextId }, lost) {
      const now = runTime.now()
      const name = columnsOf(message)
      const isTrimmed = ++puts % lookEvery === 0
      const [, , stored] = await database.commit(
        together(
          run(RESUME, taskId),
          run(FREE, ...name, now - MESSAGE_LIFE_MS, lost ?? null, database.process),
          run(PUT, ...name, hash, taskId, contextId, owner, now),
          isTrimmed ? run(TRIM, name[0], messagesMax) : nothing(0),
        ),
      )
      return stored === 1
    },
    async end(taskId, { text, ...ended }) {
      const kept = JSON.stringify({ ...ended, text: text.slice(0, TEXT_LENGTH_MAX) })
      await database.commit(run('UPDATE sent_messages SET ended = ?, waits = NULL WHERE task_id = ?', kept, taskId))
    },
    async rest(taskId, wait) {
      const text = wait === undefined ? null : JSON.stringify(wait)
      const kept = text !== null && Buffer.byteLength(text) <= WAIT_BYTES_MAX ? text : null
      const trimmed = kept === null ? nothing(0) : run(TRIM_WAITS, taskId, waitsMax)
      await database.commit(together(run(REST, kept, taskId), trimmed))
    },
    async waiting(agentId, taskId) {
      type Row = BegunRow & { waits: string }
      const row = await database.query(one<Row>(WAITING, taskId, agentId, runTime.now() - MESSAGE_LIFE_MS))
      return row && { ...(JSON.parse(row.waits) as TaskWait), ...begunOf(row) }
    },
    async tasks(agentId, tokenId, limit) {
      const found = all<{ task_id: string }>(TASKS, agentId, tokenId, runTime.now() - MESSAGE_LIFE_MS, limit)
      return (await database.query(found)).map(({ task_id }) => task_id)
    },
    async elsewhere(agentId, taskId) {
      if (!isShared) return undefined
      const row = await database.query(one<BegunRow>(ELSEWHERE, taskId, agentId, database.process))
      return row && begunOf(row)
    },
    async askCancel(taskId) {
      await database.commit(nothing(undefined), { record: 'task', id: taskId })
    },
    async ended(agentId, taskId) {
      type Row = BegunRow & { ended: string }
      const row = await database.query(one<Row>(ENDED, taskId, agentId))
      if (row === undefined) return undefined
      return { ...(JSON.parse(row.ended) as TaskEnd), ...begunOf(row) }
    },
    async purge() {
      await database.commit(run('DELETE FROM sent_messages WHERE run_ms <= ?', runTime.now() - MESSAGE_LIFE_MS))
    },
  }
}

type BegunRow = { token_id: string; message_id: string; context_id: string }

/**
 * Token, agent and id of a message as they are stored. Strangers with secrets share the bounds of all strangers, because
 * secrets cost nothing: the digest of the secret stands before the id.
 */
function columnsOf({ tokenId = '', agentId, messageId }: MessageName): readonly [string, string, string] {
  const digest = strangerDigest(tokenId)
  return digest === undefined ? [tokenId, agentId, messageId] : [STRANGER.tokenId!, agentId, `${digest}/${messageId}`]
}

/** A stranger without a secret names its messages by UUIDs, which have no slash. */
function begunOf({ token_id, message_id, context_id }: BegunRow): BegunTask {
  const digest = token_id === STRANGER.tokenId ? /^([0-9a-f]+)\//.exec(message_id)?.[1] : undefined
  const tokenId = digest === undefined ? token_id : strangerWith(digest).tokenId
  return { tokenId: tokenId === '' ? undefined : tokenId, contextId: context_id }
}
