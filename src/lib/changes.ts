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

  /** Resolves when `condition` holds, after `limitMs`, or on abort. Checks now and at each change of `id`. */
  async until(
    id: string,
    condition: () => boolean,
    { limitMs, signal }: { limitMs: number; signal?: AbortSignal },
  ): Promise<void> {
    if (condition() || limitMs <= 0 || signal?.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, limitMs)
    const ended = () => resolve()
    signal?.addEventListener('abort', ended, { once: true })
    const leave = this.listen((changed) => {
      if (changed === id && condition()) resolve()
    })
    await promise
    clearTimeout(timer)
    signal?.removeEventListener('abort', ended)
    leave()
  }
}
