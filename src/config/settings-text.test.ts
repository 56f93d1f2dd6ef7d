import { expect, test } from 'vitest'
import { refusalText } from './settings-text.ts'

test.each(['EACCES', 'EPERM'])('a file that %s keeps from this user says whose it is and what to do', (code) => {
  const error = Object.assign(new Error(`${code}: permission denied, open '/srv/stoa/keys.env'`), { code })
  expect(refusalText(error)).toMatch(/another user: run stoa as that user .*--data-dir/)
})

test('another error keeps its own words', () => {
  expect(refusalText(Object.assign(new Error('i/o'), { code: 'EIO' }))).toBeUndefined()
})
