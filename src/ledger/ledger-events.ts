import type { Logger } from '../lib/logger.ts'
import type { LedgerChange, LedgerListener } from '../store/ledger-changes.ts'

/** The listeners of the ledger, called in the order in which they came. */
export class LedgerEvents {
  readonly #listeners = new Set<LedgerListener>()
  readonly #logger: Logger

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** @returns a function that removes the listener */
  listen(listener: LedgerListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Reports a change that is on disk. A listener that throws fails neither the change nor the other listeners. */
  emit(change: LedgerChange): void {
    for (const listener of this.#listeners) {
      try {
        listener(change)
      } catch (error) {
        this.#logger.error({ err: error }, `a change of the ledger is stored, but a listener failed: ${change.record}`)
      }
    }
  }
}
