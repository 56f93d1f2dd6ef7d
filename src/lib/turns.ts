/**
 * Starts a few tasks per turn of the event loop. The others wait for later turns, in order of arrival. Tasks that
 * arrive together would run in step: all are checked, then all stored, then all answered. With a long first step, no
 * answer leaves before the last task is checked, and the clients idle. In small groups, both sides work at the same
 * time, and no burst blocks the sockets for long.
 */
export function createTurns(perTurn: number): () => Promise<void> {
  const waiting: (() => void)[] = []
  let begun = 0
  let isCounting = false

  function nextTurn(): void {
    begun = 0
    for (const begin of waiting.splice(0, perTurn)) {
      begun++
      begin()
    }
    isCounting = begun > 0
    if (isCounting) setImmediate(nextTurn)
  }

  return () => {
    if (!isCounting) {
      isCounting = true
      setImmediate(nextTurn)
    }
    if (begun < perTurn && waiting.length === 0) {
      begun++
      return Promise.resolve()
    }
    return new Promise((resolve) => waiting.push(resolve))
  }
}
