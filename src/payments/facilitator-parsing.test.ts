import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { randomHex } from '../../test/support/payments.ts'
import { isUnreached, outcomeOf } from './facilitator.ts'

const transaction = randomHex()
const outcome = (body: unknown, status = 200) =>
  outcomeOf({ status, text: typeof body === 'string' ? body : JSON.stringify(body) })

test('success with a hash is settled', () => {
  expect(outcome({ success: true, transaction, network: 'eip155:84532', payer: '0x' })).toEqual({
    kind: 'settled',
    txHash: transaction,
  })
  expect(outcome({ success: true, transaction: transaction.toUpperCase().replace('0X', '0x') })).toEqual({
    kind: 'settled',
    txHash: transaction,
  })
})

describe('T13: is unclear, for the chain to decide', () => {
  test.each<[string, unknown, number?]>([
    ['success with an empty hash', { success: true, transaction: '' }],
    ['success without a hash', { success: true }],
    ['success with null for a hash', { success: true, transaction: null }],
    ['success with half a hash', { success: true, transaction: transaction.slice(0, 34) }],
    ['success with a status of 500', { success: true, transaction }, 500],
    ['settlement_pending', { success: false, errorReason: 'settlement_pending', transaction }],
    ['a nonce used already', { success: false, errorReason: 'invalid_exact_evm_nonce_already_used', transaction: '' }],
    ['a failed transaction', { success: false, errorReason: 'invalid_exact_evm_transaction_failed' }],
    ['a reason nobody knows', { success: false, errorReason: 'the moon' }],
    ['a reason of every object', { success: false, errorReason: '__proto__' }],
    ['no reason', { success: false }],
    ['text', 'Bad Gateway', 404],
    ['nothing', ''],
    ['null', 'null'],
    ['an array', []],
    ['success as text', { success: 'true', transaction }],
    ['a request that is refused', { error: 'no' }, 401],
    ['a reason without end', { success: false, errorReason: 'x'.repeat(1000) }],
  ])('%s', (_what, body, status) => {
    expect(outcome(body, status)).toMatchObject({ kind: 'unclear', reason: expect.any(String) })
  })
})

test('T21: a reason that repeats the payment is told without it', () => {
  const signature = `0x${'ab'.repeat(65)}`
  const told = outcome({ success: false, errorReason: `bad signature ${signature} of ${transaction}`.slice(0, 200) })
  expect(told).toEqual({ kind: 'unclear', reason: expect.stringContaining('bad signature [cut] of 0x') })
})

describe('D40: is down, and nothing is lost by it', () => {
  const rpc = 'HTTP request failed.\n\nStatus: 503\nURL: http://rpc/\n\nDetails: "no"'
  test.each<[string, unknown, number?]>([
    ['text', 'Bad Gateway', 502],
    ['a server error', { error: 'down' }, 500],
    ['a server error with a settlement answer', { success: false, errorReason: 'the moon', transaction: '' }, 503],
    ['too many requests', 'slow down', 429],
    ['a transaction that failed for want of an RPC', failure('invalid_exact_evm_transaction_failed', rpc)],
    ['a message of any length', failure('invalid_exact_evm_transaction_failed', rpc + 'x'.repeat(5_000))],
    ['a signature that this node has recovered itself', failure('invalid_exact_evm_signature')],
    ['an asset that is there', failure('asset_not_deployed_contract')],
    ['an error nobody expected', failure('unexpected_settle_error')],
  ])('%s', (_what, body, status) => {
    expect(outcome(body, status)).toMatchObject({ kind: 'down', reason: expect.any(String) })
  })
  test('but not where it names a transaction that it has sent', () => {
    const pending = { ...failure('settlement_pending', rpc), transaction }
    expect(outcome(pending)).toMatchObject({ kind: 'unclear' })
  })
  function failure(errorReason: string, errorMessage?: string) {
    return { success: false, errorReason, errorMessage, transaction: '', network: '' }
  }
})

describe('is refused for good, with 200 or 4xx alike', () => {
  test.each([
    'invalid_exact_evm_recipient_mismatch',
    'invalid_exact_evm_authorization_value',
    'invalid_exact_evm_payload_authorization_valid_before',
    'invalid_exact_evm_token_name_mismatch',
    'invalid_exact_evm_insufficient_balance',
    'insufficient_funds',
  ])('%s', (errorReason) => {
    for (const status of [200, 400, 402]) {
      const refused = outcome({ success: false, errorReason, transaction: '', network: '' }, status)
      expect(refused).toEqual({ kind: 'refused', reason: `the facilitator refuses: ${errorReason}` })
    }
  })
})

test('a reason is one short line, whatever the facilitator sends', () => {
  const { reason } = outcome({ success: false, errorReason: `a\n\u001b[31mb\u0000${'c'.repeat(180)}` }) as {
    reason: string
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what must not be there
  expect(reason).toMatch(/^[^\u0000-\u001f\u007f]{1,200}$/)
})

test('T8: any text at all has an outcome, and only a well-formed success is settled', () => {
  const answers = fc.oneof(
    fc.string(),
    fc.json(),
    fc.jsonValue().map((value) => JSON.stringify({ success: true, transaction: value })),
  )
  fc.assert(
    fc.property(answers, fc.constantFrom(200, 201, 400, 500), (text, status) => {
      const { kind } = outcomeOf({ status, text })
      expect(['unclear', 'refused', 'down']).toContain(kind)
    }),
    { numRuns: 500 },
  )
})

describe('T13: nothing was asked where there was no connection, and only there', () => {
  const failed = (code: string, syscall?: string) => Object.assign(new Error(code), { code, syscall })
  test.each([
    [failed('ECONNREFUSED', 'connect'), true],
    [failed('ENOTFOUND', 'getaddrinfo'), true],
    [failed('UND_ERR_CONNECT_TIMEOUT'), true],
    [{ code: 'ECONNREFUSED', errors: [failed('ECONNREFUSED', 'connect'), failed('ETIMEDOUT', 'connect')] }, true],
    [failed('EHOSTUNREACH', 'read'), false],
    [failed('ENETUNREACH', 'write'), false],
    [failed('ECONNRESET', 'read'), false],
    [{ code: 'ECONNREFUSED', errors: [failed('ECONNREFUSED', 'connect'), failed('ECONNRESET', 'read')] }, false],
    [new Error('timed out'), false],
  ])('%#', (error, expected) => {
    expect(isUnreached(error)).toBe(expected)
  })
})
