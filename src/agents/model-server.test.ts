import { expect, test } from 'vitest'
import { endlessAnswer } from '../../test/support/endless-answer.ts'
import { modelsOf } from './model-server.ts'

test('T7 a model server whose list does not end is read up to a limit', async () => {
  const endless = endlessAnswer('{"data": [')
  const asked = modelsOf(async () => endless.response, { baseUrl: 'http://a/v1', key: undefined }, never())
  expect(await asked).toEqual({ problem: 'http://a/v1/models is no list of models' })
  expect(endless.bytesRead()).toBeLessThan(5 * 1024 * 1024)
  expect(endless.isCanceled()).toBe(true)
})

test('a list of models is read', async () => {
  const fetch = async () => Response.json({ data: [{ id: 'one' }, { id: 'two' }] })
  expect(await modelsOf(fetch, { baseUrl: 'http://a/v1/', key: 'k' }, never())).toEqual({ models: ['one', 'two'] })
})

function never(): AbortSignal {
  return new AbortController().signal
}

test('a page that is not JSON is no list of models, and the server was reached', async () => {
  const fetch = async () => new Response('<html>')
  const asked = modelsOf(fetch, { baseUrl: 'http://a/v1', key: undefined }, never())
  expect(await asked).toEqual({ problem: 'http://a/v1/models is no list of models' })
})
