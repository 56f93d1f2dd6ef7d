type Lane = <T>(work: () => Promise<T>) => Promise<T>

/** Runs tasks one after the other, in order of arrival. A failed task does not stop the next one. */
export function createLane(): Lane {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const done = last.then(work)
    last = done.catch(() => {})
    return done
  }
}

/** A lane for each key. Keeps nothing about a key whose tasks have ended. */
export class Lanes {
  readonly #last = new Map<string, Promise<void>>()

  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const done = (this.#last.get(key) ?? Promise.resolve()).then(work)
    const leave = () => {
      if (this.#last.get(key) === ended) this.#last.delete(key)
    }
    const ended: Promise<void> = done.then(leave, leave)
    this.#last.set(key, ended)
    return done
  }

  /** Resolves when all tasks so far have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#last.values())
  }
}
