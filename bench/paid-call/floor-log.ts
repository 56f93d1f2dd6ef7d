import pg from 'pg'
import { DurableLog } from './durable-log.ts'

/** Where a floor keeps its rows. */
export type FloorLog = {
  /** Resolves when the row is on disk. */
  append(row: string): Promise<void>
  close(): void | Promise<void>
}

/** The log of floors D and D1, which keep calls by their ids. */
export const keptCalls = (log: FloorLog): DurableLog => {
  if (log instanceof DurableLog) return log
  throw new Error('floors D and D1 keep their calls in SQLite')
}

/** @param databaseUrl empty: SQLite in `dataDir` */
export async function openLog(dataDir: string, databaseUrl: string): Promise<FloorLog> {
  return databaseUrl === '' ? new DurableLog(dataDir) : openPostgresLog(databaseUrl)
}

/** A bare INSERT with its own commit. Rows that come while one is under way share the next. */
async function openPostgresLog(connectionString: string): Promise<FloorLog> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  await client.query('CREATE TABLE log (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, row text NOT NULL)')
  const insert = { name: 'insert', text: 'INSERT INTO log (row) SELECT * FROM unnest(CAST($1 AS text[]))' }
  let waiting: { row: string; resolve: () => void }[] = []
  let isBusy = false

  async function flush(): Promise<void> {
    isBusy = true
    while (waiting.length > 0) {
      const group = waiting
      waiting = []
      await client.query({ ...insert, values: [group.map(({ row }) => row)] })
      for (const { resolve } of group) resolve()
    }
    isBusy = false
  }

  return {
    append: (row) =>
      new Promise((resolve) => {
        const isFirst = waiting.push({ row, resolve }) === 1
        if (isFirst && !isBusy) setImmediate(() => void (isBusy || flush()))
      }),
    close: () => client.end(),
  }
}
