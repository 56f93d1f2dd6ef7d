/** JSON in which an amount is its digits and an `n`, so that it reads back as an amount. */
export function textOf(value: unknown): string {
  return JSON.stringify(value, (_, field: unknown) => (typeof field === 'bigint' ? `${field}n` : field))
}

/** Reads such a text, which this node has written. */
export function parse<T>(text: string): T {
  const revive = (_: string, field: unknown) =>
    typeof field === 'string' && /^[0-9]+n$/.test(field) ? BigInt(field.slice(0, -1)) : field
  return JSON.parse(text, revive) as T
}
