import { expect, test } from 'vitest'
import { bytesOf, formOf } from './result-form.ts'

test('JSON is formatted, but left unchanged if a number would be rounded or the text is not JSON', () => {
  expect(formOf('{"a":[1]}')).toEqual({ kind: 'json', text: '{\n  "a": [\n    1\n  ]\n}' })
  expect(formOf('{"a":12345678901234567890}')).toEqual({ kind: 'text' })
  expect(formOf('{not json}')).toEqual({ kind: 'text' })
  expect(formOf('# Title')).toEqual({ kind: 'text' })
})

test('a result that is not UTF-8 shows its size and keeps its bytes', () => {
  const bytes = Uint8Array.from([0, 255, 128, 7])
  const base64 = Buffer.from(bytes).toString('base64')
  expect(formOf('', base64)).toEqual({ kind: 'bytes', length: 4 })
  expect([...bytesOf(base64)]).toEqual([...bytes])
})
