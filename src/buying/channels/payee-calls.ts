/** So many calls to one payee in this time are worth a channel. */
const CALLS_MIN = 5
const CALLS_MS = 60 * 60 * 1000
/** Payees whose calls are counted. */
const PAYEES_MAX = 1_000

/** When each payee was called last, by the monotonic clock. */
export class PayeeCalls {
  readonly #calls = new Map<string, number[]>()

  /** Notes a call. @returns true if there were enough for a channel */
  note(payTo: string, now: number): boolean {
    const calls = this.#calls
    const recent = [...(calls.get(payTo) ?? []).filter((at) => now - at < CALLS_MS), now].slice(-CALLS_MIN)
    calls.delete(payTo)
    calls.set(payTo, recent)
    if (calls.size > PAYEES_MAX) calls.delete(calls.keys().next().value!)
    return recent.length >= CALLS_MIN
  }
}
