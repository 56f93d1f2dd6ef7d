import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { type Database, openDatabase } from './database.ts'
import { createListingIndex } from './listing-index.ts'
import { type matchExpression, typedWords } from './listing-match.ts'
import { createListingSearch, type ListingSearch } from './listing-search.ts'

let database: Database
let search: ListingSearch

const facts = { description: 'does it', tags: ['Légal ', 'two words'], protocols: ['/x/1'], price: 5n }
const names = ['AND OR NOT', 'Café NEAR', 'C++ 5.1', '合同摘要', 'हिन्दी अनुवाद', 'name marks rowid', 'foo-bar "baz"']

beforeAll(async () => {
  database = openDatabase({ path: ':memory:' })
  const index = createListingIndex(database)
  const times = { updatedAt: 0, expiresAt: 10, seenAt: 0 }
  await database.write(() => {
    for (const [n, name] of names.entries())
      index.put({ id: `id${n}`, sellerId: 'Seller', facts: { ...facts, name }, ...times })
  })
  search = createListingSearch(database)
})

const everything = { after: 0, limit: 100, skeleton: '' }
const wordsOf = (query: string, begins = false) => typedWords(query).map((tokens) => ({ tokens, begins }))
function found(query: string, begins = false): string[] {
  const words = { list: wordsOf(query, begins), join: 'all', place: 'anywhere' } as const
  return words.list.length === 0 ? [] : search.block({ words }, everything).map(({ id }) => names[Number(id.slice(2))]!)
}

test.each([
  ['AND', ['AND OR NOT']],
  ['NOT and', ['AND OR NOT']],
  ['cafe', ['Café NEAR']],
  ['ＣＡＦＥ́', ['Café NEAR']],
  ['NEAR(cafe, 5)', []],
  ['near cafe', ['Café NEAR']],
  ['c++', ['C++ 5.1']],
  ['摘要', ['合同摘要']],
  ['同摘', ['合同摘要']],
  ['要摘', []],
  ['अनुवाद', ['हिन्दी अनुवाद']],
  ['name:marks', ['name marks rowid']],
  ['-marks', ['name marks rowid']],
  ['rowid marks', ['name marks rowid']],
  ['"foo bar" baz', ['foo-bar "baz"']],
  ['foo-bar', ['foo-bar "baz"']],
  ['bar-foo', []],
  ['legal', names],
  ['* " \' ; -- \0', []],
  ['free', []],
  ['\ue000paid', []],
  ['\ue001does', names],
])('T10 %j is words and nothing else', (query, expected) => {
  expect(found(query)).toEqual(expected)
})

test('a word may be the beginning of one, where that is asked', () => {
  expect(found('row', true)).toEqual(['name marks rowid'])
  expect(found('row')).toEqual([])
  expect(found('合同摘', true)).toEqual(['合同摘要'])
})

test('words are looked for in names alone, where that is asked', () => {
  const named = (query: string, begins = false) =>
    search
      .block({ words: { list: wordsOf(query, begins), join: 'all', place: 'name' } }, everything)
      .map(({ id }) => names[Number(id.slice(2))]!)
  expect(named('NOT and')).toEqual(['AND OR NOT'])
  expect(named('foo-bar')).toEqual(['foo-bar "baz"'])
  expect(named('bar-foo')).toEqual([])
  expect(named('合同摘', true)).toEqual(['合同摘要'])
  expect(named('row', true)).toEqual(['name marks rowid'])
  expect(named('legal')).toEqual([])
})

test('a filter leaves out, and changes nothing of how well words fit', () => {
  const words = { list: wordsOf('legal does'), join: 'all', place: 'anywhere' } as const
  const fits = (wanted: Parameters<typeof matchExpression>[0]) =>
    search.block(wanted, everything).map(({ id, fit }) => [id, fit])
  expect(fits({ words })).toHaveLength(names.length)
  expect(fits({ words, marks: [{ kind: 'paid' }, { kind: 'tag', tag: 'legal' }] })).toEqual(fits({ words }))
  expect(fits({ words })[0]![1]).not.toBe(0)
})

test('marks are found by mark only, and tags in whatever form', () => {
  const count = (...marks: Parameters<typeof matchExpression>[0]['marks'] & object) => search.count({ marks }, 100)
  expect(count({ kind: 'tag', tag: 'LEGAL' })).toBe(names.length)
  expect(count({ kind: 'tag', tag: 'Two  Words' })).toBe(names.length)
  expect(count({ kind: 'tag', tag: 'two' })).toBe(0)
  expect(count({ kind: 'seller', sellerId: 'Seller' }, { kind: 'paid' })).toBe(names.length)
  expect(count({ kind: 'seller', sellerId: 'seller' })).toBe(0)
  expect(count({ kind: 'free' })).toBe(0)
})

test('T8 any text is searched without an error', () => {
  const parts = fc.constantFrom(
    'AND',
    'OR',
    'NOT',
    'NEAR/2',
    '"',
    '""',
    "'",
    '*',
    '^',
    ':',
    '{',
    '}',
    '(',
    ')',
    '+',
    '-',
  )
  const anything = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 40 }),
    parts,
    fc.constantFrom('\0', '\ud800', '\ue000t1'),
  )
  fc.assert(
    fc.property(fc.array(anything, { maxLength: 12 }), fc.boolean(), (pieces, begins) => {
      found(pieces.join(' '), begins)
      found(pieces.join(''), begins)
    }),
    { numRuns: 3000 },
  )
})

test('T8 a query of many words is cut', () => {
  const words = typedWords(Array.from({ length: 10_000 }, (_, n) => `w${n}`).join(' '))
  expect(words).toHaveLength(24)
  expect(typedWords('合'.repeat(5000))[0]).toHaveLength(32)
  expect(typedWords('a A á a')).toEqual([['a']])
})
