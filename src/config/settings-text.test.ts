import { expect, test } from 'vitest'
import { refusalText } from './settings-text.ts'

test.each(['EACCES', 'EPERM'])('a file that is refused with %s names its owner and what to do', (code) => {
  const error = Object.assign(new Error(`${code}: permission denied, open '/srv/stoa/keys.env'`), { code })
  expect(refusalText(error)).toMatch(/another user: run stoa as that user .*--data-dir/)
})

test('any other error keeps its own text', () => {
  expect(refusalText(Object.assign(new Error('i/o'), { code: 'EIO' }))).toBeUndefined()
})
