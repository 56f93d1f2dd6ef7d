import type { Operation } from '../api/operation.ts'

/** Finds rows by path if the router has no route: for preflights and refusals. */
type PathTable = {
  /** The row that answers `method` at a path. GET rows also answer HEAD. */
  find(path: string, method: string): Operation | undefined
  /** Every method that a path answers. Empty for an unknown path. */
  methods(path: string): string[]
}

export function createPathTable(rows: readonly Operation[]): PathTable {
  const compiled = rows.map((row) => ({ row, pattern: pathPattern(row.path) }))
  const at = (path: string) => {
    const rowsThere = compiled.filter(({ pattern }) => pattern.test(path)).map(({ row }) => row)
    const nearer = rowsThere.filter((row) => !row.path.includes('{'))
    return nearer.length > 0 ? nearer : rowsThere
  }
  return {
    find: (path, method) => at(path).find((row) => row.method === (method === 'HEAD' ? 'GET' : method)),
    methods(path) {
      const methods = new Set<string>(at(path).map(({ method }) => method))
      if (methods.size === 0) return []
      if (methods.has('GET')) methods.add('HEAD')
      return [...methods, 'OPTIONS']
    },
  }
}

function pathPattern(path: string): RegExp {
  return new RegExp(`^(?:/api)?${path.replace(/\./g, '\\.').replace(/\{\w+\}/g, '[^/]+')}/?$`)
}
