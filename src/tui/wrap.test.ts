import { describe, expect, test } from 'vitest'
import { lastRows, wrap } from './wrap.ts'

describe('wrap', () => {
  test.each([
    ['', 10, ['']],
    ['short', 10, ['short']],
    ['one two three', 8, ['one two', 'three']],
    ['one two  ', 7, ['one two']],
    ['aa bb cc', 5, ['aa bb', 'cc']],
    ['abcdefghij', 4, ['abcd', 'efgh', 'ij']],
    ['日本語', 4, ['日本', '語']],
    ['e\u0301e\u0301e\u0301', 2, ['e\u0301e\u0301', 'e\u0301']],
  ])('%j at %i columns', (line, width, rows) => {
    expect(wrap(line, width)).toEqual(rows)
  })

  test('a color that is on at the end of a row ends there and starts again in the next row', () => {
    expect(wrap('\u001b[31mabcdef\u001b[39mg', 4)).toEqual(['\u001b[31mabcd\u001b[0m', '\u001b[31mef\u001b[39mg'])
  })
})

test('lastRows shows the end, or earlier rows, and never goes past the beginning', () => {
  const lines = ['a', 'b c d', 'e']
  expect(lastRows(lines, { width: 1, height: 3, back: 0 })).toEqual(['c', 'd', 'e'])
  expect(lastRows(lines, { width: 1, height: 3, back: 1 })).toEqual(['b', 'c', 'd'])
  expect(lastRows(lines, { width: 1, height: 3, back: 99 })).toEqual(['a', 'b', 'c'])
})
