type AskedRead = { run: () => unknown; resolve: (value: unknown) => void; reject: (reason: unknown) => void }

type TurnTransaction = {
  exec(sql: 'BEGIN' | 'END' | 'ROLLBACK'): void
  /** True if a transaction is open. */
  isBegun(): boolean
}

/**
 * Runs the reads of one turn of the event loop in one transaction: SQLite takes and gives back the locks of the file for each
 * transaction, which takes longer than a read by a key.
 */
export function readsOfATurn({ exec, isBegun }: TurnTransaction) {
  let waiting: AskedRead[] = []

  function readAll(): void {
    const reads = waiting
    waiting = []
    const isShared = reads.length > 1 && begin()
    for (const { run, resolve, reject } of reads) {
      try {
        resolve(run())
      } catch (error) {
        reject(error)
      }
    }
    if (isShared) end()
  }

  /** Nothing was written, so nothing is lost if the file refuses. */
  function end(): void {
    try {
      if (isBegun()) exec('END')
    } catch {
      if (isBegun()) exec('ROLLBACK')
    }
  }

  /** @returns false if the file refuses: then each read says so itself */
  function begin(): boolean {
    try {
      exec('BEGIN')
      return true
    } catch {
      return false
    }
  }

  return {
    read: <T>(run: () => T): Promise<T> =>
      new Promise<T>((resolve, reject) => {
        const isFirst = waiting.push({ run, resolve: resolve as (value: unknown) => void, reject }) === 1
        if (isFirst) queueMicrotask(readAll)
      }),
    /** Runs what waits, before the file is closed. */
    readAll,
  }
}
