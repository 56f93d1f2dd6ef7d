import type { Usage } from '../../agents/runtime.ts'
import { type Clock, monotonicOf } from '../../lib/clock.ts'
import { wordsIn } from '../../payments/pricing.ts'
import type { Pricing, Units } from '../../schema/pricing.ts'

/**
 * Counts what a run uses, as far as its agent charges for it. What it states is never more than true: a model that does not
 * say how many tokens it took is charged by words, and time in which the seller waits for its buyer is not counted.
 */
export class Meter {
  readonly #pricing: Pricing
  readonly #clock: Clock
  readonly #input: string
  #usage: Usage = {}
  #worked = 0
  /** Since when it works, by the monotonic clock. Undefined: it waits, or has ended. */
  #since: number | undefined

  constructor(pricing: Pricing, input: string, clock: Clock) {
    this.#pricing = pricing
    this.#input = input
    this.#clock = clock
  }

  /** Begins to count time, or goes on. */
  start(): void {
    this.#since ??= monotonicOf(this.#clock)
  }

  pause(): void {
    if (this.#since === undefined) return
    this.#worked += Math.max(0, monotonicOf(this.#clock) - this.#since)
    this.#since = undefined
  }

  /** Takes the model's own count. A number that is no count is not believed. */
  used({ inputTokens, outputTokens }: Usage): void {
    this.#usage = { inputTokens: countOf(inputTokens), outputTokens: countOf(outputTokens) }
  }

  /** What was used so far. `written`: the least number of output tokens, if the model does not state them. */
  units(written: number): Units {
    const { per_1k_input_tokens: input, per_1k_output_tokens: output, per_second: time } = this.#pricing
    const { inputTokens, outputTokens } = this.#usage
    return {
      ...(input !== undefined && { input_tokens: inputTokens ?? wordsIn(this.#input) }),
      ...(output !== undefined && { output_tokens: outputTokens ?? written }),
      ...(time !== undefined && { milliseconds: Math.floor(this.#elapsed()) }),
    }
  }

  /** The least that a part of the output has used. The model's count of the whole does not matter. */
  part(written: number): Units {
    const units = this.units(written)
    return units.output_tokens === undefined ? units : { ...units, output_tokens: written }
  }

  #elapsed(): number {
    const running = this.#since === undefined ? 0 : Math.max(0, monotonicOf(this.#clock) - this.#since)
    return this.#worked + running
  }
}

function countOf(tokens: number | undefined): number | undefined {
  return Number.isSafeInteger(tokens) && tokens! >= 0 ? tokens : undefined
}
