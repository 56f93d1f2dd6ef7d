/** The fields that have a value. An undefined field is left out, as optional fields of records want. */
export function defined<T extends object>(fields: T): { [Name in keyof T]?: Exclude<T[Name], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as ReturnType<typeof defined<T>>
}
