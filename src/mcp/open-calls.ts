import type { Caller } from '../schema/caller.ts'

/** A request as its client names it: its own id, and the session the node gave it. */
export type RequestName = { caller: Caller; session: string | undefined; id: string | number }

/**
 * Calls under way, for `notifications/cancelled` of a 2025-era client, which comes as a request of its own: each request has a
 * server of its own, which knows of no other.
 */
export class OpenCalls {
  readonly #open = new Map<string, Set<AbortController>>()

  /** @returns what aborts when the client cancels, and how to say that the call has ended */
  enter(name: RequestName): { signal: AbortSignal; leave(): void } {
    const key = keyOf(name)
    const controller = new AbortController()
    const calls = this.#open.get(key) ?? new Set()
    this.#open.set(key, calls.add(controller))
    const leave = () => {
      calls.delete(controller)
      if (calls.size === 0 && this.#open.get(key) === calls) this.#open.delete(key)
    }
    return { signal: controller.signal, leave }
  }

  /**
   * Ends a call. Clients that keep no session count their requests alike: where two calls have one name, which of them is meant
   * is not known, and none is ended.
   */
  cancel(name: RequestName): boolean {
    const calls = this.#open.get(keyOf(name))
    if (calls?.size !== 1) return false
    for (const call of calls) call.abort(new Error('canceled by the client'))
    return true
  }
}

function keyOf({ caller: { tokenId }, session, id }: RequestName): string {
  return JSON.stringify([tokenId ?? null, session ?? null, id])
}
