import { within } from '../lib/wait.ts'
import type { Hex } from '../schema/primitives.ts'

/** How long the answer to a buyer waits for the first attempt (D31). */
const FIRST_ATTEMPT_WAIT_MS = 10_000

/** The first attempts under way. An answer to a buyer waits for one, and a stopping node for all. */
export class FirstAttempts {
  readonly waitMs: number
  readonly #underWay = new Set<Promise<boolean>>()
  /** Hashes that buyers have received and that are not on disk yet. */
  readonly #named = new Map<Hex, Hex>()
  readonly namedFor = (id: Hex): Hex | undefined => this.#named.get(id)

  constructor(waitMs = FIRST_ATTEMPT_WAIT_MS) {
    this.waitMs = waitMs
  }

  /** Notes the hash that the facilitator named. @returns a function to call when it is on disk */
  name(id: Hex, txHash: Hex | undefined): () => void {
    if (txHash !== undefined) this.#named.set(id, txHash)
    return () => void this.#named.delete(id)
  }

  /** Waits for an attempt. @returns its transaction; undefined if it has failed or takes longer than `waitMs` */
  async wait(attempt: Promise<Hex | undefined>): Promise<Hex | undefined> {
    const waited = within(this.waitMs, attempt).finally(() => this.#underWay.delete(waited))
    this.#underWay.add(waited)
    return (await waited) ? attempt : undefined
  }

  /** Resolves when all attempts have ended or have taken longer than `waitMs`. */
  async idle(): Promise<void> {
    await Promise.all(this.#underWay)
  }
}
