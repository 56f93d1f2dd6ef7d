/** The characters that start a formula in a spreadsheet. */
const FORMULA = /^[\s]*[=+\-@\t\r\n＝＋－＠]/u
const QUOTED = /[",\r\n]/

/** One line of CSV (RFC 4180). A cell that a spreadsheet would run as a formula gets an apostrophe before it. */
export function csvLine(cells: readonly string[]): string {
  return `${cells.map(cellText).join(',')}\r\n`
}

function cellText(cell: string): string {
  const harmless = FORMULA.test(cell) ? `'${cell}` : cell
  return QUOTED.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless
}
