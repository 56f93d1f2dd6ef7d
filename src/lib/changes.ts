/** Notifies listeners that the thing with an id has changed. Errors of listeners are ignored. */
export class Changes {
  readonly #listeners = new Set<(id: string) => void>()

  /** @returns a function that removes the listener */
  listen(listener: (id: string) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  tell(id: string): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(id)
      } catch {
        // A listener that throws does not fail the change.
      }
    }
  }

  /**
   * Resolves when `condition` holds, after `limitMs`, or on abort. Checks now and at each change of `id`. A change
   * during a check leads to another check. Rejects if a check fails.
   */
  async until(
    id: string,
    condition: () => boolean | Promise<boolean>,
    { limitMs, signal }: { limitMs: number; signal?: AbortSignal },
  ): Promise<void> {
    if (limitMs <= 0 || signal?.aborted) return
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    let isChecking = false
    let isStale = false
    const check = async () => {
      isStale = true
      if (isChecking) return
      isChecking = true
      while (isStale) {
        isStale = false
        if (await condition()) resolve()
      }
      isChecking = false
    }
    const ended = () => resolve()
    const timer = setTimeout(resolve, limitMs)
    signal?.addEventListener('abort', ended, { once: true })
    const leave = this.listen((changed) => {
      if (changed === id) check().catch(reject)
    })
    check().catch(reject)
    try {
      await promise
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', ended)
      leave()
    }
  }
}
