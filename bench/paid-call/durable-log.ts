import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'

/**
 * A minimal durable log: one row, on disk when the promise resolves. Commits of one turn of the event loop share a
 * flush.
 */
export class DurableLog {
  readonly #sqlite: DatabaseSync
  readonly #statements
  #waiting: { statement: StatementSync; values: SQLInputValue[]; resolve: () => void }[] = []

  constructor(dataDir: string) {
    this.#sqlite = new DatabaseSync(join(dataDir, 'floor.db'))
    // The page size of the node's own ledger.
    this.#sqlite.exec('PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
    this.#sqlite.exec(`
      CREATE TABLE log (id INTEGER PRIMARY KEY, row TEXT NOT NULL);
      CREATE TABLE calls (no INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, begun TEXT NOT NULL, result TEXT, settled BLOB);
    `)
    this.#statements = {
      begin: this.#sqlite.prepare('BEGIN IMMEDIATE'),
      insert: this.#sqlite.prepare('INSERT INTO log (row) VALUES (?)'),
      commit: this.#sqlite.prepare('COMMIT'),
      beginCall: this.#sqlite.prepare('INSERT INTO calls (id, begun) VALUES (?, ?)'),
      keepCall: this.#sqlite.prepare('INSERT INTO calls (id, begun, result) VALUES (?, ?, ?)'),
      endCall: this.#sqlite.prepare('UPDATE calls SET result = ? WHERE id = ?'),
      settleCall: this.#sqlite.prepare('UPDATE calls SET settled = ? WHERE id = ?'),
    }
  }

  append(row: string): Promise<void> {
    return this.#write(this.#statements.insert, [row])
  }

  /** Stores a call, which exists once. */
  beginCall(id: Uint8Array, begun: string): Promise<void> {
    return this.#write(this.#statements.beginCall, [id, begun])
  }

  /** Stores a call with its result, in one row. */
  keepCall(id: Uint8Array, begun: string, result: string): Promise<void> {
    return this.#write(this.#statements.keepCall, [id, begun, result])
  }

  endCall(id: Uint8Array, result: string): Promise<void> {
    return this.#write(this.#statements.endCall, [result, id])
  }

  settleCall(id: Uint8Array, transaction: Uint8Array): Promise<void> {
    return this.#write(this.#statements.settleCall, [transaction, id])
  }

  close(): void {
    this.#sqlite.close()
  }

  #write(statement: StatementSync, values: SQLInputValue[]): Promise<void> {
    return new Promise((resolve) => {
      if (this.#waiting.push({ statement, values, resolve }) === 1) setImmediate(() => this.#flush())
    })
  }

  #flush(): void {
    const { begin, commit } = this.#statements
    const group = this.#waiting
    this.#waiting = []
    begin.run()
    for (const { statement, values } of group) statement.run(...values)
    commit.run()
    for (const { resolve } of group) resolve()
  }
}
