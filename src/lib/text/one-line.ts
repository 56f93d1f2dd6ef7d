/** A text of others on one line: no controls of the terminal or of the direction of text, cut at `lengthMax` code units. */
export function oneLine(text: string, lengthMax: number): string {
  const line = text
    .slice(0, lengthMax)
    .toWellFormed()
    .replace(/[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]+/gu, ' ')
  return line.trim()
}
