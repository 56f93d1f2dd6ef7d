import { statSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { within } from '../lib/wait.ts'
import type { Database } from './database.ts'

/** Files up to this size in bytes are checked at start: that takes a moment. */
export const AT_ONCE_BYTES = 16 * 1024 * 1024
const LIMIT_MS = 5_000

/** Runs in a separate thread with its own connection: a large file takes seconds. */
const CHECK = `
  const { parentPort, workerData } = require('node:worker_threads')
  const { DatabaseSync } = require('node:sqlite')
  try {
    const database = new DatabaseSync(workerData, { readOnly: true })
    const [first] = database.prepare('PRAGMA quick_check(1)').all()
    database.close()
    parentPort.postMessage(first.quick_check)
  } catch (error) {
    parentPort.postMessage(error.message)
  }`

/**
 * Checks an open database for damaged pages (SQLite's quick_check), and condemns it if it finds any.
 *
 * If the check takes longer than `limitMs`, it continues in the background. The database is then condemned as soon as
 * damage is found.
 *
 * @returns true if the check is complete
 */
export async function checkSoundness(
  database: Database,
  path: string,
  { limitMs = LIMIT_MS, atOnceBytes = AT_ONCE_BYTES } = {},
): Promise<boolean> {
  if (statSync(path).size <= atOnceBytes) {
    judge(database, firstFinding(database))
    return true
  }
  const worker = new Worker(CHECK, { eval: true, workerData: path, stderr: true })
  worker.unref()
  const found = new Promise<void>((resolve) => {
    worker.once('message', (finding: string) => {
      judge(database, finding)
      resolve()
    })
    // A thread that cannot start says nothing about the file.
    worker.once('error', () => resolve())
  })
  return within(limitMs, found)
}

function firstFinding(database: Database): string {
  try {
    const [first] = database.prepare('PRAGMA quick_check(1)').all() as { quick_check: string }[]
    return first?.quick_check ?? 'no answer'
  } catch (error) {
    return (error as Error).message
  }
}

function judge(database: Database, finding: string): void {
  if (finding !== 'ok') database.condemn(finding)
}
