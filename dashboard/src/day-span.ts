/** The start and end of a calendar day in the viewer's time zone. */
export function daySpan(day: string | undefined): { since?: string; until?: string } {
  const match = /^(\d{4})-(\d\d)-(\d\d)$/.exec(day ?? '')
  if (match === null) return {}
  const [year, month, date] = match.slice(1).map(Number) as [number, number, number]
  const [since, until] = [new Date(year, month - 1, date), new Date(year, month - 1, date + 1)]
  return { since: since.toISOString(), until: until.toISOString() }
}
