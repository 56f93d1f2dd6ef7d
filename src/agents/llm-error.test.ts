import { APICallError, RetryError } from 'ai'
import { expect, test } from 'vitest'
import { type Logger, silentLogger } from '../lib/logger.ts'
import { explainLlmError, redact } from './llm-error.ts'

const KEY = 'k3y-without-a-known-shape'

function explain(error: unknown, signal = new AbortController().signal) {
  const logged: string[] = []
  const logger: Logger = {
    ...silentLogger,
    warn: (fields, message) => void logged.push(JSON.stringify({ fields, message })),
  }
  const access = { baseUrl: 'https://x/v1', apiKey: KEY, keyVariable: 'X_KEY' }
  const explained = explainLlmError(error, { agent: 'a', provider: 'openai', modelId: 'm', access, signal }, logger)
  return { explained, logged }
}

function apiError(fields: object = {}) {
  const body = {
    requestBodyValues: { messages: ['the words of a buyer'] },
    responseBody: KEY,
    responseHeaders: { 'x-key': KEY },
  }
  return new APICallError({ message: `bad key ${KEY}`, url: `https://x?key=${KEY}`, ...body, ...fields })
}

test('neither the key nor the request is in the error or the log (T21)', () => {
  const errors = [
    apiError({ statusCode: 401 }),
    new RetryError({ message: KEY, reason: 'maxRetriesExceeded', errors: [apiError({ statusCode: 500 })] }),
    new TypeError(`Headers.append: "Bearer ${KEY}" is an invalid header value`),
    `thrown ${KEY}`,
  ]
  for (const error of errors) {
    const { explained, logged } = explain(error)
    expect(explained.cause).toBeUndefined()
    for (const text of [explained.message, explained.stack, ...logged]) {
      expect(text).not.toContain(KEY)
      expect(text).not.toContain('words of a buyer')
    }
  }
})

test('the operator finds the agent, model, status and reason in the log (T20)', () => {
  const { logged } = explain(apiError({ statusCode: 418 }))
  expect(JSON.parse(logged[0]!).fields).toEqual({
    agent_name: 'a',
    model: 'openai/m',
    status: 418,
    reason: 'bad key [key]',
  })
})

test('an error after the task was canceled is a cancel, and no news', () => {
  const { explained, logged } = explain(apiError({ statusCode: 500 }), AbortSignal.abort())
  expect(explained.code).toBe('AGENT_CANCELLED')
  expect(logged).toEqual([])
})

test.each([
  ['Incorrect API key provided: sk-proj-ab************yz.', 'Incorrect API key provided: [key]'],
  ['key AIzaSyA1234567890 not valid\n\nsee docs', 'key [key] not valid see docs'],
  ['x'.repeat(400), `${'x'.repeat(300)}…`],
])('what looks like a key is cut out of %j', (text, expected) => {
  expect(redact(text, undefined)).toBe(expected)
})
