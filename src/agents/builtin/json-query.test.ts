import fc from 'fast-check'
import { expect, test } from 'vitest'
import { jsonQuery } from './json-query.ts'

const json = JSON.stringify({ items: [{ name: 'a', 'odd key': 1 }, { name: 'b' }], n: { x: null } })

test.each([
  ['.', json],
  ['.items[0].name', '"a"'],
  ['.items[-1].name', '"b"'],
  ['.items[].name', '"a"\n"b"'],
  ['.items[0]["odd key"]', '1'],
  ['["n"].x', 'null'],
  ['.items.length', '2'],
  ['.n[]', 'null'],
  ['.none.deeper', 'null'],
  ['.items[9]', 'null'],
  ['.constructor', 'null'],
  ['.__proto__', 'null'],
])('%s gives %s', (path, expected) => {
  expect(jsonQuery(`${path}\n${json}`)).toBe(expected)
})

test.each([
  ['.a', 'the JSON follows on the next line'],
  ['\n{}', 'the path is empty'],
  ['items\n{}', 'not understood at "items"'],
  ['.a b\n{}', 'not understood at " b"'],
  ['.a["b\n{}', 'not understood'],
  ['.a\n{oops}', 'not valid JSON'],
  ['.a[]\n{"a": 1}', '[] meets a value that is neither an array nor an object'],
  [`${'.a'.repeat(65)}\n{}`, 'more than 64 steps'],
])('%j is refused: %s', (input, message) => {
  expect(() => jsonQuery(input)).toThrow(message)
  expect(() => jsonQuery(input)).toThrow(expect.objectContaining({ code: 'AGENT_FAILED' }))
})

test('JSON of any depth is answered or refused, never a crash (T8)', () => {
  const deep = `${'['.repeat(500_000)}${']'.repeat(500_000)}`
  try {
    expect(jsonQuery(`.\n${deep}`)).toBe(deep)
  } catch (error) {
    expect((error as Error).message).toMatch(/nested too deeply|not valid JSON/)
  }
})

test('the value at any key of any JSON is found', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.string(), (value, key) => {
      expect(jsonQuery(`.a[${JSON.stringify(key)}]\n${JSON.stringify({ a: { [key]: value } })}`)).toBe(
        JSON.stringify(value),
      )
    }),
  )
})
