import { describe, expect, test } from 'vitest'
import { MarketError, NodeStopping } from '../listings/market-error.ts'
import { PeerError } from '../protocols/peer-error.ts'
import { UnreadableAnswer } from '../protocols/x402/answers.ts'
import { SellerSilent } from '../protocols/x402/first-answer.ts'
import { TaskTooLong } from '../protocols/x402/wrapped-body.ts'
import { type X402ErrorName, x402Errors } from '../schema/x402.ts'
import { chargeAfter, isInDoubt, outcomeOf } from './outcome.ts'

type Outcome = ReturnType<typeof outcomeOf>
const [last, ask, send] = ['last word', 'ask again', 'send again'] as const
/** For each error, with the `retryable` flag and without it: after the payment, a request for its result, and the payment again. */
const rows: [X402ErrorName, retryable: boolean, payment: Outcome, result: Outcome, again: Outcome][] = [
  ['INVALID_MESSAGE', false, last, last, last],
  ['INVALID_MESSAGE', true, ask, ask, ask],
  ['UNKNOWN_RESOURCE', false, last, last, last],
  ['UNKNOWN_RESOURCE', true, ask, ask, ask],
  ['PAYMENT_REQUIRED', false, last, send, last],
  ['PAYMENT_REQUIRED', true, ask, send, ask],
  ['PAYMENT_INVALID', false, last, last, last],
  ['PAYMENT_INVALID', true, ask, ask, ask],
  ['PAYMENT_NONCE_MISMATCH', false, ask, last, last],
  ['PAYMENT_NONCE_MISMATCH', true, ask, ask, ask],
  ['PAYMENT_NONCE_EXPIRED', false, last, last, last],
  ['PAYMENT_NONCE_EXPIRED', true, ask, ask, ask],
  ['PAYMENT_NONCE_USED', false, ask, last, ask],
  ['PAYMENT_NONCE_USED', true, ask, ask, ask],
  ['PAYMENT_AMOUNT_WRONG', false, last, last, last],
  ['PAYMENT_AMOUNT_WRONG', true, ask, ask, ask],
  ['SETTLEMENT_FAILED', false, last, last, last],
  ['SETTLEMENT_FAILED', true, ask, ask, ask],
  ['EXECUTION_FAILED', false, last, last, last],
  ['EXECUTION_FAILED', true, last, last, last],
  ['OVERLOADED', false, last, last, last],
  ['OVERLOADED', true, ask, ask, ask],
]
const outcomes = (error: unknown) =>
  (['payment', 'result', 'payment again'] as const).map((request) => outcomeOf(error, request))

test('the table has every error, with its flag and without it', () => {
  const all = Object.keys(x402Errors).flatMap((name) => [`${name} false`, `${name} true`])
  expect(rows.map(([name, retryable]) => `${name} ${retryable}`)).toEqual(all)
})

describe('after the payment was signed', () => {
  test.each(rows)('%s, retryable: %s', (name, retryable, ...expected) => {
    expect(outcomes(new PeerError(name, 'no', { retryable }))).toEqual(expected)
  })

  test.each([
    ['an error that is not in the table, retryable', foreign(true), [ask, ask, ask]],
    ['an error that is not in the table', foreign(false), [last, last, last]],
    ['an answer that cannot be read', new UnreadableAnswer('INVALID_MESSAGE', 'odd'), [ask, ask, ask]],
    ['a refusal of this node', new MarketError('LISTING_MISMATCH', 'no'), [last, ask, ask]],
    ['a node that stops', new NodeStopping(), [ask, ask, ask]],
    ['a task that is too long', new TaskTooLong(), [ask, ask, ask]],
    ['a seller that is silent', new SellerSilent(1), [ask, ask, ask]],
    ['a connection that was lost', new Error('lost'), [ask, ask, ask]],
    ['something that is no error', 'lost', [ask, ask, ask]],
  ])('%s', (_what, error, expected) => {
    expect(outcomes(error)).toEqual(expected)
  })
})

describe('before anything was signed', () => {
  test.each(rows)('%s, retryable: %s, is the last word', (name, retryable) => {
    expect(outcomeOf(new PeerError(name, 'no', { retryable }), undefined)).toBe(last)
  })

  test.each([
    ['a refusal of this node', new MarketError('LISTING_MISMATCH', 'no'), last],
    ['a seller that is silent', new SellerSilent(1), last],
    ['a task that is too long', new TaskTooLong(), last],
    ['a stream that was lost', new Error('lost'), 'other stream'],
  ])('%s', (_what, error, expected) => {
    expect(outcomeOf(error, undefined)).toBe(expected)
  })
})

test('an order is in doubt if it is signed and nobody had the last word', () => {
  const said = new PeerError('OVERLOADED', 'no')
  const refused = new MarketError('LISTING_MISMATCH', 'no')
  const lost = new Error('lost')
  const inDoubt = (isSigned: boolean, isAborted: boolean) =>
    [said, refused, lost].map((error) => isInDoubt(error, { isSigned, isAborted }))
  expect(inDoubt(false, false)).toEqual([false, false, false])
  expect(inDoubt(false, true)).toEqual([false, false, false])
  expect(inDoubt(true, false)).toEqual([false, false, true])
  expect(inDoubt(true, true)).toEqual([false, true, true])
})

describe('the stored error of a failed order', () => {
  test.each(Object.keys(x402Errors))('%s is the word of the seller', (code) => {
    const isOpen = code === 'SETTLEMENT_FAILED' || code === 'PAYMENT_REQUIRED'
    expect(chargeAfter(code, false)).toBe(isOpen ? 'possible' : 'none')
    expect(chargeAfter(code, true)).toBe('possible')
  })

  test.each(['RESULT_PENDING', 'SELLER_FAILED', 'DEADLINE', 'toString', undefined])('%s is not', (code) => {
    expect([chargeAfter(code, false), chargeAfter(code, true)]).toEqual(['unknown', 'unknown'])
  })
})

function foreign(retryable: boolean) {
  return new PeerError('EXECUTION_FAILED', 'no', { isForeign: true, retryable })
}
