import { expect, test } from 'vitest'
import { reasonOf } from './errors.ts'

test('the reason of an event that something was rejected with is its error, or what ended', () => {
  const failed = Object.assign(new Event('close'), { error: new Error('reset by the peer') })
  expect([reasonOf(failed), reasonOf(new Event('close')), reasonOf('text')]).toEqual([
    'reset by the peer',
    'a connection ended (close)',
    'text',
  ])
})
