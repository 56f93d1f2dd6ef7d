export type IsBlocked = (...names: string[]) => boolean

/** The operator's list `seller.block`: accounts that cannot pay here, and peers that are not served. */
export function blockedParties(names: readonly string[]): IsBlocked {
  const blocked = new Set(names.map((name) => name.toLowerCase()))
  return (...asked) => blocked.size > 0 && asked.some((name) => blocked.has(name.toLowerCase()))
}
