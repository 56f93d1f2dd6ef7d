import { expect, test } from 'vitest'
import * as z from 'zod'
import { CodedError } from '../../lib/errors.ts'
import { silentLogger } from '../../lib/logger.ts'
import { Price, PriceText } from '../../schema/amount.ts'
import { Problem } from '../../schema/api.ts'
import { type X402ErrorName, x402Errors } from '../../schema/x402.ts'
import {
  HttpError,
  internalProblem,
  invalid,
  type ProblemCode,
  problemFor,
  problemOf,
  problems,
  rawProblem,
} from './problem.ts'

const statuses: Record<number, ProblemCode[]> = {
  400: ['INVALID_REQUEST', 'MALFORMED_JSON'],
  401: ['TOKEN_REQUIRED', 'TOKEN_WRONG'],
  402: ['OVER_PRICE', 'OVER_BUDGET', 'LISTING_MISMATCH'],
  403: ['HOST_NOT_ALLOWED', 'ORIGIN_NOT_ALLOWED', 'FIELD_NOT_ALLOWED'],
  404: ['NOT_FOUND', 'UNKNOWN_AGENT'],
  413: ['INPUT_TOO_LARGE', 'BODY_TOO_LARGE'],
  415: ['UNSUPPORTED_MEDIA_TYPE'],
  429: ['OVERLOADED', 'TOO_MANY_ATTEMPTS'],
  502: ['SELLER_UNREACHABLE', 'SELLER_FAILED', 'RESULT_PENDING', 'AGENT_FAILED'],
  503: ['CHAIN_UNAVAILABLE', 'WALLET_UNAVAILABLE', 'STOPPING'],
  504: ['DEADLINE', 'AGENT_TIMEOUT'],
}

test.each(Object.entries(statuses))('D15 answers %s for %j', (status, codes) => {
  for (const code of codes) {
    const problem = problemOf(new CodedError(code, 'what to do'))
    expect(problem).toMatchObject({ status: Number(status), code, detail: 'what to do', type: `/docs#${code}` })
    expect(Problem.safeParse(problem).success).toBe(true)
  }
})

test.each(Object.keys(x402Errors) as X402ErrorName[])('D15 tells name and number of x402 error %s', (name) => {
  const error = Object.assign(new CodedError(name, 'no'), { correlationId: 'c-1', retryable: true })
  expect(problemOf(error)).toMatchObject({
    status: name === 'OVERLOADED' ? 429 : 502,
    code: name,
    error_code: x402Errors[name].code,
    correlation_id: 'c-1',
    retryable: true,
  })
  expect(problemOf(new CodedError(name, 'no'))?.retryable).toBe(x402Errors[name].retryable)
})

test('a part of the program that an installation took away is told, without the path of it', async () => {
  const path = '/secret/part.js'
  const error = await import(path).catch((reason: unknown) => reason)
  const told = problemFor(error, { operation: 'reloadAgents', caller: undefined }, silentLogger)
  expect(told).toMatchObject({ status: 500, code: 'INTERNAL', detail: expect.stringContaining('start it again') })
  expect(JSON.stringify(told)).not.toContain('secret')
})

test('D15 T21 has no answer for what is not known: nothing of it is shown', () => {
  const unknown = [
    new Error('secret'),
    new CodedError('SOMETHING_ELSE', 'secret'),
    new CodedError('toString', 'secret'),
    new CodedError('__proto__', 'secret'),
    Object.assign(new Error('secret'), { code: 'ENOENT' }),
    Object.assign(new Error('secret'), { code: 'X', statusCode: 500 }),
    'secret',
    undefined,
    null,
  ]
  for (const error of unknown) expect(problemOf(error)).toBeUndefined()
  expect(JSON.stringify(internalProblem('c-1'))).not.toContain('secret')
  expect(internalProblem('c-1')).toMatchObject({ status: 500, code: 'INTERNAL', correlation_id: 'c-1' })
})

test('T8 bounds what it repeats of the request', () => {
  const long = 'x'.repeat(100_000)
  const error = z.strictObject({}).safeParse(Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [long + i, 1])))
    .error!
  const problem = problemOf(invalid('body', error))!
  expect(problem.errors).toHaveLength(20)
  expect(JSON.stringify(problem).length).toBeLessThan(20_000)
  expect(problemOf(new HttpError('INVALID_REQUEST', long))!.detail.length).toBeLessThan(3000)
})

test('names the fields that are not valid, and how', () => {
  const schema = z.strictObject({ name: z.string(), tags: z.array(z.string()), price: z.number() })
  const error = schema.safeParse({ tags: ['a', 1], price: '1', extra: true }).error!
  const problem = problemOf(invalid('body', error))!
  expect(problem.errors).toEqual([
    { path: 'name', message: 'is missing' },
    { path: 'tags[1]', message: 'Invalid input: expected string, received number' },
    { path: 'price', message: 'Invalid input: expected number, received string' },
    { path: 'extra', message: 'is not a field of this request' },
  ])
  expect(problem.detail).toContain('name is missing')
})

test('of a value that may be text or number it tells what is wrong with the one it is', () => {
  const schema = z.strictObject({ max_price: z.union([Price, PriceText]) })
  const told = (max_price: unknown) => problemOf(invalid('body', schema.safeParse({ max_price }).error!))!.detail
  expect(told(-1)).toBe('body: max_price "-1" is less than 0')
  expect(told('-1')).toBe('body: max_price "-1" is less than 0')
  expect(told(true)).toContain('received boolean')
})

test('every row has a status of HTTP and a title', () => {
  for (const row of Object.values(problems)) {
    expect(row.status).toBeGreaterThanOrEqual(400)
    expect(row.status).toBeLessThan(600)
    expect(row.title).toMatch(/^[A-Z].*[^.]$/)
  }
})

test('writes a whole HTTP answer for bytes that are no request', () => {
  const [head = '', body = ''] = rawProblem('INVALID_REQUEST', 'no').split('\r\n\r\n')
  expect(head).toMatch(/^HTTP\/1\.1 400 /)
  expect(head).toContain(`Content-Length: ${Buffer.byteLength(body)}`)
  expect(Problem.parse(JSON.parse(body)).code).toBe('INVALID_REQUEST')
})
