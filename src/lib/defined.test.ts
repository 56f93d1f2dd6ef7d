import { expect, test } from 'vitest'
import { defined } from './defined.ts'

test('a field without a value is left out, and one that is empty stays', () => {
  const fields = defined({ name: undefined, text: '', count: 0, none: null, is: false })
  expect(Object.entries(fields)).toEqual(Object.entries({ text: '', count: 0, none: null, is: false }))
})
