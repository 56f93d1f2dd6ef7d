import type { Query } from './query.ts'
import type { Noted } from './shared-changes.ts'
import type { StoreError } from './store-error.ts'

/** The database of the ledger: SQLite (store/database.ts) or PostgreSQL (store/postgres/). */
export type LedgerDatabase = {
  /** The id of this process in the ledger. It owns the work that it begins (store/ownership.ts). */
  readonly process: string
  /**
   * The time in SQL, in ms, by the clock of the database. Only where several processes share the ledger: their own clocks
   * differ.
   */
  readonly time?: string | undefined
  /**
   * Reads. All statements of the query see one state of the ledger, with every change that was committed before.
   *
   * @throws StoreError `STORE_DAMAGED`, `STORE_AWAY`
   */
  query<T>(query: Query<T>): Promise<T>
  /**
   * Runs a change in the next grouped transaction and resolves with its value once it is durable.
   *
   * Changes of the same turn of the event loop share one commit, so durability costs one flush per group. If one of
   * them throws, the group is rolled back and each runs again alone.
   *
   * Other processes may commit between two steps of a change. So a rule about winners is a conditional statement
   * (`ON CONFLICT DO NOTHING`, `UPDATE … WHERE state = …`) whose answer says who won, or takes a `lock`.
   *
   * @throws StoreError `STORE_WRITE_FAILED` if the disk refuses, `STORE_DAMAGED` after a damaged page was found,
   * `STORE_AWAY` if the database cannot be reached, or the error of the change. Nothing was written then. But after
   * `STORE_IN_DOUBT` it may be.
   *
   * @param noted what the other processes are told of this change, if the ledger is shared. A record that turns out
   * unchanged may be named too.
   */
  commit<T>(change: Query<T>, ...noted: readonly Noted[]): Promise<T>
  /** Like `commit`, for changes that nobody waits for. Joins the next commit, or gets its own after 10 ms, and
   * up to 100 ms on a server that is far away. */
  commitLater<T>(change: Query<T>, ...noted: readonly Noted[]): Promise<T>
  /** Notes inside of a change what the other processes are told. Asks for nothing if the ledger is not shared. */
  note(...noted: readonly Noted[]): Query<unknown>
  /**
   * The bytes that the ledger takes, without what is free for reuse. Exact beyond `enough`: below it, what is free may
   * be counted too.
   */
  usedBytes(enough?: number): Promise<number>
  /** Why changes are refused: the file is damaged, or another process took the ledger. Callers check this before they trade. */
  damage(): StoreError | undefined
  /**
   * True if no other process can have taken over the work of this one, by its own clocks. Only where several processes
   * share the ledger.
   */
  isHeld?(): boolean
  /** Commits waiting changes, then closes. */
  close(): Promise<void>
}
