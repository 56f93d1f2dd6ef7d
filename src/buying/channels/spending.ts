import { largest } from '../../lib/bigints.ts'
import type { Hex } from '../../schema/primitives.ts'

const MINUTE_MS = 60_000

type Minute = { beganAt: number; owed: bigint; before: bigint }

/** What the calls of each channel have cost within a minute: in the one that is running, or in the one before, if that was more. */
export class Spending {
  readonly #channels = new Map<Hex, Minute>()

  /** @param owed what the charges of the channel and its calls in flight may cost. @param now by the monotonic clock */
  lately(id: Hex, owed: bigint, now: number): bigint {
    const minute = this.#channels.get(id) ?? { beganAt: now, owed, before: 0n }
    this.#channels.set(id, minute)
    const ageMs = now - minute.beganAt
    const spent = largest(owed - minute.owed, 0n)
    if (ageMs < MINUTE_MS) return largest(spent, minute.before)
    // A longer time says nothing of a minute.
    const before = ageMs < 2 * MINUTE_MS ? spent : 0n
    this.#channels.set(id, { beganAt: now, owed, before })
    return before
  }

  forget(id: Hex): void {
    this.#channels.delete(id)
  }
}
