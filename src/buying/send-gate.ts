import type { Logger } from '../lib/logger.ts'
import { pause } from '../lib/wait.ts'
import type { LedgerDatabase } from '../store/ledger-database.ts'

const LOOK_EVERY_MS = 100

/** Resolves when this process may send a signed payment. @throws the signal's reason */
export type SendGate = (signal: AbortSignal) => Promise<void>

/**
 * Keeps signed payments of a process that is cut off from the shared ledger. Others take over its orders when its lease
 * ends. So it sends a payment, or sends it again, only while it holds its lease by its own clock. Otherwise it waits for
 * the ledger, or for the end of the purchase.
 */
export function createSendGate(database: Pick<LedgerDatabase, 'isHeld'>, logger: Logger): SendGate {
  const isHeld = () => database.isHeld?.() ?? true
  return async (signal) => {
    if (isHeld()) return
    logger.warn({}, 'a signed payment waits: this process has not reached its ledger for most of its lease')
    while (!isHeld()) {
      await pause(LOOK_EVERY_MS, signal)
      signal.throwIfAborted()
    }
  }
}
