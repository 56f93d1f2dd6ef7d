/** Runs tasks one after the other, in order of arrival. A failed task does not stop the next one. */
export function createLane(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const done = last.then(work)
    last = done.catch(() => {})
    return done
  }
}
