import type { Logger } from '../lib/logger.ts'
import type { Payments } from '../store/payments.ts'
import type { KnownLosses } from './known-losses.ts'

type RecountsDeps = { logger: Logger; payments: Pick<Payments, 'recount'>; losses: KnownLosses }

/** Payments that end within this time are taken off the sums of the ledger together. */
const SOON_MS = 1_000
const LATER_MS = 10_000

/** Takes payments that have ended off the sums of unsettled work in the ledger (store/exposed.ts), many at a time. */
export class Recounts {
  readonly #deps: RecountsDeps
  #timer: NodeJS.Timeout | undefined
  #turn: Promise<void> = Promise.resolve()
  #isStopping = false
  /** What this process had noted of losses at the last recount. */
  #own = 0

  constructor(deps: RecountsDeps) {
    this.#deps = deps
  }

  /** Counts what processes left that have ended. */
  start(): Promise<void> {
    return this.#recount()
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    clearTimeout(this.#timer)
    await this.#turn
  }

  soon(inMs = SOON_MS): void {
    if (this.#timer !== undefined || this.#isStopping) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#turn = this.#turn.then(() => this.#recount()).catch((error: unknown) => this.#again(error))
    }, inMs)
    this.#timer.unref()
  }

  async #recount(): Promise<void> {
    const { payments, losses } = this.#deps
    const own = losses.own - this.#own
    let [noted, number] = [0, 0]
    for (let isAll = false; !isAll; ) {
      const recount = await payments.recount()
      isAll = recount.isAll
      noted += recount.noted
      if (recount.noted > 0) number = recount.losses
    }
    this.#own += own
    if (noted > 0) await losses.counted(noted, { number, own })
  }

  #again(error: unknown): void {
    this.#deps.logger.debug({ err: error }, 'could not recount the unsettled work: trying again later')
    this.soon(LATER_MS)
  }
}
