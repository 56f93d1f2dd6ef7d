import { expect, test } from 'vitest'
import { fakeDeps, fakeServer } from '../../../test/support/fake-api.ts'
import { apiOperations } from './operations.ts'

const { app } = fakeServer()
const posts = apiOperations(fakeDeps()).filter(({ method }) => method === 'POST')

test.each(posts.map((row) => [row.path, row] as const))(
  'D38 POST %s is done once for a key, may be done again, or refuses the key',
  async (path, { body, idempotent, repeatable }) => {
    const answer = await app.inject({
      method: 'POST',
      url: path.replace(/\{\w+\}/g, 'x'),
      headers: { 'idempotency-key': 'a-key', ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { payload: body.safeParse({}).success ? '{}' : '{"no":"body"}' }),
    })
    const takesIt = idempotent === true || repeatable === true
    expect(answer.body.includes('"IDEMPOTENCY_UNSUPPORTED"')).toBe(!takesIt)
    if (!takesIt) expect([answer.statusCode, answer.json().detail]).toEqual([400, expect.stringContaining('once')])
  },
)

test('D38 what makes a secret, or spends gas, refuses the key', () => {
  const refusing = posts.filter((row) => row.idempotent !== true && row.repeatable !== true).map(({ id }) => id)
  expect(refusing).toEqual(expect.arrayContaining(['createToken', 'createWebhook', 'registerOnchain', 'giveFeedback']))
})
