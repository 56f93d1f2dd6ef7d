import { MarketError } from '../listings/market-error.ts'

/** The window of the payment is over and its result has not come: the order stays in doubt. */
export class ResultOverdue extends Error {
  override name = 'ResultOverdue'
  constructor() {
    super('no result came while the payment could be settled')
  }
}

/** The caller's signal, a limit of our own, and whoever else may call off, in one. */
export class Deadline {
  readonly #controller = new AbortController()
  #timer: NodeJS.Timeout | undefined
  readonly #outer: AbortSignal
  readonly #onOuter = () => this.#controller.abort(this.#outer.reason)
  passed = false

  constructor(outer: AbortSignal, ms?: number) {
    this.#outer = outer
    if (outer.aborted) this.#onOuter()
    outer.addEventListener('abort', this.#onOuter, { once: true })
    if (ms !== undefined) this.limit(ms, () => new MarketError('DEADLINE', 'the seller did not answer in time'))
  }

  /** Ends the wait after this long, instead of the limit before. */
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

  clear(): void {
    clearTimeout(this.#timer)
    this.#outer.removeEventListener('abort', this.#onOuter)
  }
}
