const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' })
const wide =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{20000}-\u{3fffd}]/u

/** A color sequence, or text between color sequences. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: a color sequence begins with one
const parts = /\u001b\[[0-9;]*m|\P{Cc}+/gu

/** Columns that a character takes on a terminal. */
function widthOf(character: string): number {
  if (/^[\p{Mn}\p{Me}\p{Cf}]+$/u.test(character)) return 0
  return wide.test(character) ? 2 : 1
}

/**
 * Breaks a line of text into rows of at most `width` columns, at spaces if there are any. Not wrap-ansi: it either
 * removes the indentation of the line or keeps the space at a break, and it passes control characters. Supports only
 * color sequences. A color that is active at the end of a row is set again in the next row.
 */
export function wrap(line: string, width: number): string[] {
  const rows: string[] = []
  let row = ''
  let used = 0
  let colors = ''
  let full = false
  // The last possible break in the row: the length and columns up to it, the space included.
  let blank: { length: number; used: number; colors: string } | undefined
  const end = (rest: string, restUsed: number) => {
    rows.push(colors === '' ? row : `${row}\u001b[0m`)
    row = colors + rest
    used = restUsed
    blank = undefined
    full = false
  }
  for (const part of line.match(parts) ?? []) {
    if (part.startsWith('\u001b')) {
      row += part
      colors = /\[(0|39|22|49)?m$/.test(part) ? '' : colors + part
      continue
    }
    for (const { segment } of graphemes.segment(part)) {
      const columns = widthOf(segment)
      if (full && segment !== ' ') end('', 0)
      if (used + columns > width && segment !== ' ') {
        if (blank !== undefined && blank.length > 0 && colors === blank.colors) {
          const rest = row.slice(blank.length)
          const restUsed = used - blank.used
          row = row.slice(0, blank.length).trimEnd()
          end(rest, restUsed)
        } else end('', 0)
      }
      // A space after a full row becomes the line break and is dropped.
      if (used + columns > width) {
        full = true
        continue
      }
      row += segment
      used += columns
      if (segment === ' ') blank = { length: row.length, used, colors }
    }
  }
  return [...rows, row]
}

/** The visible rows: as many as fit, `back` rows above the end. */
export function lastRows(
  lines: readonly string[],
  { width, height, back }: { width: number; height: number; back: number },
): string[] {
  const rows: string[] = []
  for (let i = lines.length - 1; i >= 0 && rows.length < height + back; i--) rows.unshift(...wrap(lines[i]!, width))
  const end = Math.max(Math.min(height, rows.length), rows.length - back)
  return rows.slice(Math.max(0, end - height), end)
}
