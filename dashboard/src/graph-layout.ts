export type Node = { id: string; depends_on: readonly string[] }
export type Placed = { id: string; column: number; row: number }

/**
 * Places the steps of a workflow. The column is the one after a step's last dependency. The row is the one with the
 * fewest crossing lines, as near to the dependencies as possible.
 */
export function layOut(nodes: readonly Node[]): Placed[] {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const columns = new Map<string, number>()
  const columnOf = (id: string, trail: readonly string[] = []): number => {
    const known = columns.get(id)
    if (known !== undefined) return known
    // The API refuses circles, but the layout must end for any input.
    const sources = (byId.get(id)?.depends_on ?? []).filter((one) => byId.has(one) && !trail.includes(one))
    const column = Math.max(-1, ...sources.map((one) => columnOf(one, [...trail, id]))) + 1
    columns.set(id, column)
    return column
  }
  for (const { id } of nodes) columnOf(id)

  const placed: Placed[] = []
  const rows = new Map<string, number>()
  for (let column = 0; column <= Math.max(0, ...columns.values()); column++) {
    const here = nodes.filter(({ id }) => columns.get(id) === column)
    const wish = ({ depends_on }: Node) => {
      const above = depends_on.map((id) => rows.get(id) ?? 0)
      return above.length === 0 ? 0 : above.reduce((sum, row) => sum + row, 0) / above.length
    }
    here.sort((a, b) => wish(a) - wish(b))
    here.forEach(({ id }, index) => {
      rows.set(id, index)
      placed.push({ id, column, row: index })
    })
  }
  return placed
}
