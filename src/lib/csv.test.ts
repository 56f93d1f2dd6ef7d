import fc from 'fast-check'
import { expect, test } from 'vitest'
import { csvLine } from './csv.ts'

test.each([
  [['a', 'b c', ''], 'a,b c,\r\n'],
  [['a,b', 'say "x"', 'two\nlines'], '"a,b","say ""x""","two\nlines"\r\n'],
  [['0x12', '0.01', '12D3KooW'], '0x12,0.01,12D3KooW\r\n'],
])('%j is written as RFC 4180 has it', (cells, line) => {
  expect(csvLine(cells)).toBe(line)
})

test.each(['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', '\r=1', ' =cmd', '\n=1', '＝1', '=HYPERLINK("http://x","y")'])(
  '%j never reaches a spreadsheet as a formula',
  (cell) => {
    expect(csvLine([cell])).toMatch(/^"?'/)
  },
)

test('whatever is written, no cell begins as a formula does and each comes back', () => {
  fc.assert(
    fc.property(fc.array(fc.string(), { minLength: 1, maxLength: 4 }), (cells) => {
      const back = parse(csvLine(cells))
      expect(back.every((cell) => !/^\s*[=+\-@]/.test(cell))).toBe(true)
      expect(back.map((cell, index) => (cell === `'${cells[index]}` ? cells[index] : cell))).toEqual(cells)
    }),
  )
})

/** A reader of one line, as simple as the grammar. */
function parse(line: string): string[] {
  return [...`,${line.slice(0, -2)}`.matchAll(/,(?:"((?:[^"]|"")*)"|([^",]*))/g)].map(
    ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? '',
  )
}
