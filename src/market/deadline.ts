import { MarketError } from './market-error.ts'

/** The caller's signal, a limit of our own, and whoever else may call off, in one. */
export class Deadline {
  readonly #controller = new AbortController()
  readonly #timer: NodeJS.Timeout
  readonly #outer: AbortSignal
  readonly #onOuter = () => this.#controller.abort(this.#outer.reason)
  passed = false

  constructor(outer: AbortSignal, ms: number) {
    this.#outer = outer
    if (outer.aborted) this.#onOuter()
    outer.addEventListener('abort', this.#onOuter, { once: true })
    this.#timer = setTimeout(() => {
      if (this.signal.aborted) return
      this.passed = true
      this.#controller.abort(new MarketError('DEADLINE', 'the seller did not answer in time'))
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
