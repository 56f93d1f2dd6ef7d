/**
 * Lets a few pieces of work begin in each turn of the event loop; the others wait for the next turns, in the order they came.
 *
 * What arrives together goes through the same steps together: all of it is checked, then all of it stored, then all of it
 * answered. With a long first step nothing leaves this process before the last of them has been checked, and whoever waits
 * for the answers has nothing to do meanwhile. In small groups both work at once, and no burst keeps the loop from its sockets
 * for long.
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
