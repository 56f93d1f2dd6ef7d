/** Work that waits, of holders who take turns. Work of one holder is in order of arrival. */
export class FairQueue<Work> {
  /** By holder, the next one first. */
  readonly #waiting = new Map<string, Work[]>()

  add(holder: string, work: Work): void {
    const waiting = this.#waiting.get(holder)
    if (waiting === undefined) this.#waiting.set(holder, [work])
    else waiting.push(work)
  }

  /** Takes the first work that may begin. Its holder then goes to the end of the queue. */
  next(mayBegin: (work: Work) => boolean = () => true): Work | undefined {
    for (const [holder, waiting] of this.#waiting) {
      const at = waiting.findIndex(mayBegin)
      if (at < 0) continue
      const [next] = waiting.splice(at, 1)
      this.#waiting.delete(holder)
      if (waiting.length > 0) this.#waiting.set(holder, waiting)
      return next
    }
    return undefined
  }
}
