/** So many calls to one payee in this time are worth a channel. */
const CALLS_MIN = 5
const CALLS_MS = 60 * 60 * 1000
/** Payees whose calls are counted. */
const PAYEES_MAX = 1_000

/** When each payee was called last, by the monotonic clock. */
export class PayeeCalls {
  readonly #calls = new Map<string, number[]>()

  note(payTo: string, now: number): void {
    const calls = this.#calls
    const recent = [...this.#recent(payTo, now), now].slice(-CALLS_MIN)
    calls.delete(payTo)
    calls.set(payTo, recent)
    if (calls.size > PAYEES_MAX) calls.delete(calls.keys().next().value!)
  }

  /** True if there were enough calls for a channel. */
  isFrequent(payTo: string, now: number): boolean {
    return this.#recent(payTo, now).length >= CALLS_MIN
  }

  #recent(payTo: string, now: number): number[] {
    return (this.#calls.get(payTo) ?? []).filter((at) => now - at < CALLS_MS)
  }
}
