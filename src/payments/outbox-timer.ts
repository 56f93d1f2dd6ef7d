import type { Logger } from '../lib/logger.ts'

/** Wait between two looks at the outbox while the store fails. */
const FAILING_WAIT_MS = 1_000

type OutboxTimerOptions = {
  tickMaxMs: number
  /** Looks once. @returns the wait until the next look */
  tick(): Promise<number>
}

/** Looks at the outbox when an entry is due, and at least every `tickMaxMs`. The earliest request counts. */
export class OutboxTimer {
  readonly #options: OutboxTimerOptions
  readonly #logger: Logger
  #timer: NodeJS.Timeout | undefined
  #at = 0
  #failing = false
  #stopped = false
  readonly #ticks = new Set<Promise<void>>()

  constructor(options: OutboxTimerOptions, { logger }: { logger: Logger }) {
    this.#options = options
    this.#logger = logger
  }

  schedule(inMs: number): void {
    if (this.#stopped) return
    const waitMs = Math.max(this.#failing ? FAILING_WAIT_MS : 0, Math.min(inMs, this.#options.tickMaxMs))
    if (this.#timer !== undefined && this.#at <= performance.now() + waitMs) return
    clearTimeout(this.#timer)
    this.#at = performance.now() + waitMs
    this.#timer = setTimeout(() => {
      const tick = this.#tick().finally(() => this.#ticks.delete(tick))
      this.#ticks.add(tick)
    }, waitMs)
    this.#timer.unref()
  }

  /** Delays the next look, because a step failed. */
  failed(): void {
    this.#failing = true
  }

  get stopped(): boolean {
    return this.#stopped
  }

  /** Resolves when the look under way has ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    await Promise.all(this.#ticks)
  }

  async #tick(): Promise<void> {
    this.#timer = undefined
    this.#failing = false
    let waitMs = this.#options.tickMaxMs
    try {
      waitMs = await this.#options.tick()
    } catch (error) {
      this.#failing = true
      this.#logger.error({ err: error }, 'the outbox could not be read')
    }
    this.schedule(waitMs)
  }
}
