/** The line being typed: its characters as a person counts them (graphemes), and the cursor position. */
export type Line = { characters: readonly string[]; cursor: number }

export const emptyLine: Line = { characters: [], cursor: 0 }
/** Longest line in graphemes. A longer task belongs in a file. */
const LENGTH_MAX = 20_000
const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' })

export function lineOf(text: string): Line {
  const characters = [...graphemes.segment(text)].map(({ segment }) => segment).slice(0, LENGTH_MAX)
  return { characters, cursor: characters.length }
}

export function textOf({ characters }: Line): string {
  return characters.join('')
}

export function beforeCursor({ characters, cursor }: Line): string {
  return characters.slice(0, cursor).join('')
}

/** Inserts text at the cursor. A combining character may merge with the character before it. */
export function insert(line: Line, text: string): Line {
  const head = lineOf(beforeCursor(line) + text)
  const tail = line.characters.slice(line.cursor)
  return { characters: [...head.characters, ...tail].slice(0, LENGTH_MAX), cursor: head.cursor }
}

/** Replaces the text between a position before the cursor (in UTF-16 units) and the cursor. */
export function replaceFrom(line: Line, from: number, text: string): Line {
  const head = lineOf(beforeCursor(line).slice(0, from) + text)
  return { characters: [...head.characters, ...line.characters.slice(line.cursor)], cursor: head.cursor }
}

export function move(line: Line, by: number): Line {
  return { ...line, cursor: Math.max(0, Math.min(line.characters.length, line.cursor + by)) }
}

export function toStart(line: Line): Line {
  return { ...line, cursor: 0 }
}

export function toEnd(line: Line): Line {
  return { ...line, cursor: line.characters.length }
}

export function backspace({ characters, cursor }: Line): Line {
  if (cursor === 0) return { characters, cursor }
  return { characters: characters.toSpliced(cursor - 1, 1), cursor: cursor - 1 }
}

export function deleteForward({ characters, cursor }: Line): Line {
  return { characters: characters.toSpliced(cursor, 1), cursor }
}

/** Ctrl-W: deletes back to the start of the word before the cursor. */
export function deleteWord({ characters, cursor }: Line): Line {
  let start = cursor
  while (start > 0 && characters[start - 1] === ' ') start--
  while (start > 0 && characters[start - 1] !== ' ') start--
  return { characters: characters.toSpliced(start, cursor - start), cursor: start }
}

/** Ctrl-U: deletes to the start of the line. */
export function deleteToStart({ characters, cursor }: Line): Line {
  return { characters: characters.slice(cursor), cursor: 0 }
}

/** Ctrl-K: deletes to the end of the line. */
export function deleteToEnd({ characters, cursor }: Line): Line {
  return { characters: characters.slice(0, cursor), cursor }
}

/** The part of the line that fits into `width` columns and contains the cursor: before, under and after the cursor. */
export function visible(line: Line, width: number): { before: string; under: string; after: string } {
  const shown = line.characters.map((character) => (/^\s+$/.test(character) && character !== ' ' ? '⏎' : character))
  const start = Math.max(0, line.cursor - Math.max(1, width - 1))
  return {
    before: shown.slice(start, line.cursor).join(''),
    under: shown[line.cursor] ?? ' ',
    after: shown.slice(line.cursor + 1, start + Math.max(1, width)).join(''),
  }
}
