import { StoreError } from './store-error.ts'

/** A full disk refuses what needs room. A change that finds room in its page, such as a sign of life, is still written. */
const REFUSED_MS = 60_000

/** Remembers for a minute that a change could not be written. */
export class LastRefusal {
  #last: { error: StoreError; at: number } | undefined

  /** Returns the error, to be thrown. */
  note(error: unknown): unknown {
    if (error instanceof StoreError && error.code === 'STORE_WRITE_FAILED')
      this.#last = { error, at: performance.now() }
    return error
  }

  /** Why a change of the last minute could not be written. */
  current(): StoreError | undefined {
    return this.#last !== undefined && performance.now() - this.#last.at <= REFUSED_MS ? this.#last.error : undefined
  }
}
