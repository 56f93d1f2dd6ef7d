/**
 * Counts the insertions, deletions, substitutions and swaps of neighbors between two texts, up to `max`. Undefined if
 * there are more. Computes only a band of 2 · max + 1 columns.
 */
export function editDistance(a: string, b: string, max: number): number | undefined {
  if (Math.abs(a.length - b.length) > max) return undefined
  if (a === b) return 0
  const beyond = max + 1
  let [older, old, now] = [0, 1, 2].map(() => new Uint16Array(b.length + 2)) as [Uint16Array, Uint16Array, Uint16Array]
  for (let column = 0; column <= b.length; column++) old[column] = Math.min(column, beyond)
  for (let row = 1; row <= a.length; row++) {
    const from = Math.max(1, row - max)
    const to = Math.min(b.length, row + max)
    now[from - 1] = from === 1 ? Math.min(row, beyond) : beyond
    let least = now[from - 1]!
    for (let column = from; column <= to; column++) {
      const change = a[row - 1] === b[column - 1] ? 0 : 1
      let cost = Math.min(old[column]! + 1, now[column - 1]! + 1, old[column - 1]! + change)
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      if (swapped) cost = Math.min(cost, older[column - 2]! + 1)
      now[column] = cost
      least = Math.min(least, cost)
    }
    now[to + 1] = beyond
    if (least > max) return undefined
    ;[older, old, now] = [old, now, older]
  }
  const distance = old[b.length]!
  return distance > max ? undefined : distance
}
