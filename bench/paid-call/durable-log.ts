import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/**
 * A minimal durable log: one row, on disk when the promise resolves. Commits of one turn of the event loop share a
 * flush.
 */
export class DurableLog {
  readonly #sqlite: DatabaseSync
  readonly #statements
  #waiting: { row: string; resolve: () => void }[] = []

  constructor(dataDir: string) {
    this.#sqlite = new DatabaseSync(join(dataDir, 'floor.db'))
    this.#sqlite.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
    this.#sqlite.exec('CREATE TABLE log (id INTEGER PRIMARY KEY, row TEXT NOT NULL)')
    this.#statements = {
      begin: this.#sqlite.prepare('BEGIN IMMEDIATE'),
      insert: this.#sqlite.prepare('INSERT INTO log (row) VALUES (?)'),
      commit: this.#sqlite.prepare('COMMIT'),
    }
  }

  append(row: string): Promise<void> {
    return new Promise((resolve) => {
      if (this.#waiting.push({ row, resolve }) === 1) setImmediate(() => this.#flush())
    })
  }

  close(): void {
    this.#sqlite.close()
  }

  #flush(): void {
    const { begin, insert, commit } = this.#statements
    const group = this.#waiting
    this.#waiting = []
    begin.run()
    for (const { row } of group) insert.run(row)
    commit.run()
    for (const { resolve } of group) resolve()
  }
}
