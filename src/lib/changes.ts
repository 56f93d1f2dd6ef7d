type ChangeListener = (id: string, origin: 'here' | 'elsewhere') => void

/** Notifies listeners that the thing with an id has changed. Errors of listeners are ignored. */
export class Changes {
  readonly #listeners = new Set<ChangeListener>()
  readonly #checks = new Set<() => void>()

  /** @returns a function that removes the listener */
  listen(listener: ChangeListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** @param origin `elsewhere`: another process that shares the ledger has changed it */
  tell(id: string, origin: 'here' | 'elsewhere' = 'here'): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(id, origin)
      } catch {
        // A listener that throws does not fail the change.
      }
    }
  }

  /** Checks all conditions that `until` waits for: what has changed is not known. */
  checkAll(): void {
    for (const check of [...this.#checks]) check()
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
    const checkAgain = () => void check().catch(reject)
    const leave = this.listen((changed) => {
      if (changed === id) checkAgain()
    })
    this.#checks.add(checkAgain)
    checkAgain()
    try {
      await promise
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', ended)
      leave()
      this.#checks.delete(checkAgain)
    }
  }
}
