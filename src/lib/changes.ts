/** Tells whoever listens that something of this name has changed. What listeners throw stays with them. */
export class Changes {
  readonly #listeners = new Set<(id: string) => void>()

  /** @returns how to stop listening */
  listen(listener: (id: string) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  tell(id: string): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(id)
      } catch {
        // A listener's fault is none of whoever made the change.
      }
    }
  }

  /** Resolves as soon as `condition` holds, which is asked now and at each change of `id`; or after `limitMs`; or on abort. */
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
