import type { DatabaseSync } from 'node:sqlite'
import { newerError } from './file-errors.ts'
import { migrations } from './migrations.ts'

/** Brings the schema of an open file up to date. @throws StoreError `STORE_NEWER` */
export function migrate(sqlite: DatabaseSync, path: string): void {
  const { user_version: version } = sqlite.prepare('PRAGMA user_version').get() as { user_version: number }
  if (version > migrations.length) {
    throw newerError(path, version)
  }
  // A step may change the text of a check, which Node.js forbids from 25.1 on unless it is told otherwise.
  sqlite.enableDefensive?.(false)
  for (const [index, step] of migrations.entries()) {
    if (index < version) continue
    sqlite.exec(`BEGIN IMMEDIATE; ${step}; PRAGMA user_version = ${index + 1}; COMMIT`)
  }
  sqlite.enableDefensive?.(true)
}
