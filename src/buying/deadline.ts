import { MarketError } from '../listings/market-error.ts'

/** The payment window ended and no result came. The order stays in doubt. */
export class ResultOverdue extends Error {
  override name = 'ResultOverdue'
  constructor() {
    super('no result came while the payment could be settled')
  }
}

/** One signal that combines the caller's signal, our own time limit, and `abort`. */
export class Deadline implements Disposable {
  readonly #controller = new AbortController()
  #timer: NodeJS.Timeout | undefined
  readonly #outer: AbortSignal | undefined
  readonly #onOuter = () => this.#controller.abort(this.#outer?.reason)
  passed = false

  /** @param outer the caller's signal. Undefined: nobody can cancel from outside */
  constructor(outer: AbortSignal | undefined, ms?: number) {
    this.#outer = outer
    if (outer?.aborted === true) this.#onOuter()
    outer?.addEventListener('abort', this.#onOuter, { once: true })
    if (ms !== undefined) this.limit(ms, () => new MarketError('DEADLINE', 'the seller did not answer in time'))
  }

  /** Ends after `ms`. Replaces the earlier limit. */
  limit(ms: number, reason: () => Error): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      if (this.signal.aborted) return
      this.passed = true
      this.#controller.abort(reason())
    }, ms)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  abort(reason: Error): void {
    this.#controller.abort(reason)
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#outer?.removeEventListener('abort', this.#onOuter)
  }
}
