import type { Clock } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { backoffMs } from '../lib/retry.ts'
import { idle } from '../lib/wait.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Payments } from '../store/payments.ts'
import { isLedgerAway } from '../store/store-error.ts'

const BACKOFF = { firstMs: 50, mostMs: 5_000 }
const NOT_RUN = 'the seller failed before the agent ran; the buyer was not charged'

type UnrunDeps = { clock: Clock; logger: Logger; payments: Pick<Payments, 'abandon' | 'endRun'> }

/**
 * Voids claimed payments whose agents will never run, lets other processes run work that ended here without a result, and keeps
 * what could not be stored. If the ledger is away, tries until it answers. If the process ends before that, the next start or
 * another process does the rest.
 */
export class Unrun implements Service {
  readonly name = 'payments that did not run'
  readonly #deps: UnrunDeps
  readonly #stopping = new AbortController()

  constructor(deps: UnrunDeps) {
    this.#deps = deps
  }

  async start(): Promise<void> {}

  async stop(): Promise<void> {
    this.#stopping.abort()
  }

  /** Resolves when the payment is voided, has passed that state, or was never stored. Never rejects. */
  async abandon(id: Hex, reason = NOT_RUN): Promise<void> {
    const { clock, logger, payments } = this.#deps
    await this.#untilStored(id, 'could not void a payment that did not run', async () => {
      if (await payments.abandon(id, reason, clock.now())) {
        logger.warn({ payment_id: id, reason }, 'voided a payment that has no result')
      }
    })
  }

  /** Resolves once other processes may run this work, which ended here without a result. Never rejects. */
  async leave(id: Hex): Promise<void> {
    const failed = 'could not store that a run has ended: no other process may run it'
    await this.#untilStored(id, failed, () => this.#deps.payments.endRun(id))
  }

  /**
   * Resolves once the end of a run is stored that could not be stored when it came. Never rejects.
   *
   * @param store may run more than once. @returns what became of it, if it is not stored
   */
  async keep(id: Hex, store: () => Promise<string | undefined>): Promise<void> {
    const { logger } = this.#deps
    await this.#untilStored(id, 'could not store how a paid run ended', async () => {
      logger.info({ payment_id: id }, (await store()) ?? 'the end of a paid run is now stored')
    })
  }

  async #untilStored(id: Hex, failed: string, store: () => Promise<void>): Promise<void> {
    const { signal } = this.#stopping
    for (let failures = 1; !signal.aborted; failures++) {
      try {
        return await store()
      } catch (err) {
        if (!isLedgerAway(err)) return this.#deps.logger.error({ payment_id: id, err }, failed)
        await idle(backoffMs(failures, BACKOFF), signal)
      }
    }
  }
}
