import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import type { ListingStore } from '../store/listings.ts'

/** Writes the store's pending changes a short time after a change. */
export class ListingWriter {
  readonly #store: Pick<ListingStore, 'flush'>
  readonly #logger: Logger
  readonly #writeMs: number
  #timer: NodeJS.Timeout | undefined
  #failed = false
  #closed = false

  /** @param options.writeMs how long changes may wait to be written together */
  constructor(options: { writeMs: number }, deps: { store: Pick<ListingStore, 'flush'>; logger: Logger }) {
    this.#writeMs = options.writeMs
    this.#store = deps.store
    this.#logger = deps.logger
  }

  writeSoon(): void {
    if (!this.#closed) this.#timer ??= setTimeout(() => void this.write(), this.#writeMs).unref()
  }

  /**
   * Writes what is waiting. If the disk refuses, it logs once and tries again with the next change. The next failure
   * after a success is logged again.
   */
  async write(party?: string): Promise<void> {
    if (party === undefined) {
      clearTimeout(this.#timer)
      this.#timer = undefined
    }
    try {
      await this.#store.flush(party)
      this.#failed = false
    } catch (error) {
      const message = 'listings of others could not be stored; they are kept in memory and written later'
      if (!this.#failed) this.#logger.error({ reason: reasonOf(error) }, message)
      this.#failed = true
    }
  }

  /** Writes what is waiting, for the last time. */
  async close(): Promise<void> {
    this.#closed = true
    await this.write()
  }
}
