import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeCursor, encodeCursor, type SearchPlace } from './cursor.ts'

const place: SearchPlace = {
  ...{ order: 'rank', reading: 1, split: true, section: 2, after: 500, at: 1_700_000_000_000 },
  last: { score: 0.123456, number: 499 },
}

test('a cursor leads back to its place, and fits a URL as it is', () => {
  const cursor = encodeCursor(place, 'query')
  expect(decodeCursor(cursor, 'query')).toEqual(place)
  expect(cursor).toMatch(/^[A-Za-z0-9_-]{1,512}$/)
  const sorted: SearchPlace = { order: 'price', reading: 0, price: 1e12, number: 2 ** 40 }
  expect(decodeCursor(encodeCursor(sorted, ''), '')).toEqual(sorted)
})

test('a cursor serves no other query', () => {
  expect(() => decodeCursor(encodeCursor(place, 'one'), 'other')).toThrow(/belongs to another query/)
})

test('T8 any other text is refused as a cursor', () => {
  const cursor = encodeCursor(place, 'query')
  const refused = (text: string) => void expect(() => decodeCursor(text, 'query')).toThrow(/cursor/)
  for (const text of [
    '',
    'a',
    '=',
    '%00',
    '__proto__',
    cursor.slice(1),
    `${cursor}A`,
    `${cursor}=`,
    cursor.toUpperCase(),
  ])
    refused(text)
  fc.assert(fc.property(fc.string({ maxLength: 300 }), refused))
  fc.assert(
    fc.property(fc.nat(cursor.length - 1), (at) => {
      refused(cursor.slice(0, at) + (cursor[at] === 'A' ? 'B' : 'A') + cursor.slice(at + 1))
    }),
  )
})

test.each([{}, { ...place, extra: 1 }, { ...place, after: -1 }, { ...place, order: 'constructor' }, 'text', null])(
  'T8 the place %j is refused even with a digest that fits',
  (forged) => {
    expect(() => decodeCursor(encodeCursor(forged as never, 'query'), 'query')).toThrow(/cursor/)
  },
)
