import type { Caller } from '../schema/caller.ts'

/** A request as its client names it: the client's request id and the session id from this node. */
type RequestName = { caller: Caller; session: string | undefined; id: string | number }

/** Running calls, for `notifications/cancelled` of a 2025 client: a separate request with its own server. */
export class OpenCalls {
  readonly #open = new Map<string, Set<AbortController>>()

  /** @returns a signal that aborts when the client cancels, and a function to call when the call ends */
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

  /** Clients without a session use the same request ids. If two calls share a name, neither is canceled. */
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
