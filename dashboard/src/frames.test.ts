import { expect, test } from 'vitest'
import { x402Errors } from '../../src/schema/x402.ts'
import type { Execution, Listing, OrderRecord, PaymentRecord, ReceiptRecord } from './api/types.ts'
import { framesOf, type KnownExchange } from './frames.ts'

const nonce = `0x${'a1'.repeat(32)}`
const payment = (fields: Partial<PaymentRecord> = {}) =>
  ({
    payment_id: `0x${'01'.repeat(32)}`,
    direction: 'out',
    agent_id: 'agent',
    amount: '0.01',
    amount_atomic: '10000',
    peer_id: 'seller',
    payer: '0xfrom',
    pay_to: '0xto',
    state: 'settled',
    tx_hash: '0xtx',
    challenge_nonce: nonce,
    max_timeout_seconds: 60,
    nonce,
    ...fields,
  }) as PaymentRecord
const order = (status: OrderRecord['status'], fields: Partial<OrderRecord> = {}) =>
  ({ status, agent_id: 'agent', correlation_id: 'c', price: '0.01', ...fields }) as OrderRecord
const failed = (code: string) => order('failed', { error: { code, message: 'why', retryable: false } })
const execution = (fields: Partial<Execution> = {}) =>
  ({ agent_id: 'agent', caller_id: 'did:peer:x', correlation_id: 'c', ...fields }) as Execution
const receipt = { status: 'valid', receipt: {} } as ReceiptRecord

const told = (known: KnownExchange) => framesOf(known).map(({ type, from }) => `${from} ${type}`)
const field = (known: KnownExchange, type: string, name: string) =>
  new Map(framesOf(known).find((frame) => frame.type === type)!.fields).get(name)

const BOUGHT = ['buyer x402.request', 'seller x402.payment_required', 'buyer x402.paid_request']
const SETTLEMENT = 'nobody settlement'

test.each<[string, KnownExchange, string[]]>([
  ['bought', { payment: payment(), order: order('completed') }, [...BOUGHT, 'seller x402.response', SETTLEMENT]],
  [
    'sold to who paid at once',
    { payment: payment({ direction: 'in', challenge_nonce: null }), execution: execution({ output: 'result' }) },
    ['buyer x402.request', 'seller x402.response', SETTLEMENT],
  ],
  ['sold, told by its receipt', { payment: payment(), receipt }, [...BOUGHT, 'seller x402.response', SETTLEMENT]],
  [
    'under way',
    { payment: payment({ state: 'reserved' }), order: order('executing') },
    [...BOUGHT, 'nobody no answer yet', SETTLEMENT],
  ],
  [
    'refused',
    { payment: payment({ state: 'released' }), order: failed('EXECUTION_FAILED') },
    [...BOUGHT, 'seller x402.error', SETTLEMENT],
  ],
  [
    'sold, and the agent failed',
    { payment: payment({ state: 'voided', error: 'why' }) },
    [...BOUGHT, 'seller x402.error', SETTLEMENT],
  ],
  [
    'settled with nothing that tells of its end',
    { payment: payment({ direction: 'in' }) },
    [...BOUGHT, 'seller x402.response or x402.error', SETTLEMENT],
  ],
  [
    'sold over A2A',
    { payment: payment({ direction: 'in', peer_id: 'a2a:1', challenge_nonce: null }), receipt },
    ['buyer message', 'seller payment-required', 'buyer payment-submitted', 'seller payment-completed', SETTLEMENT],
  ],
  ['ended by this node', { order: failed('LISTING_MISMATCH') }, ['buyer x402.request', 'nobody LISTING_MISMATCH']],
  ['free', { order: order('completed') }, ['buyer execute', 'seller answer']],
  ['done for nothing', { execution: execution({ output: 'result' }) }, ['buyer execute', 'seller answer']],
  [
    'free, and failed',
    { order: failed('OVERLOADED'), listing: { price: 0 } as Listing },
    ['buyer execute', 'seller error'],
  ],
  ['with an own agent', { order: order('completed'), listing: { local: true } as Listing }, []],
  ['asked by this node', { execution: execution({ caller_id: 'local' }) }, []],
  ['not begun', { order: order('pending') }, []],
])('an exchange that is %s has its frames: %#', (_, known, frames) => {
  expect(told(known)).toEqual(frames)
})

test('a call on a channel has a voucher and a charge, and neither challenge, signature nor transaction', () => {
  const paid = payment({ challenge_nonce: null, channel_id: '0xchannel', tx_hash: '', amount_atomic: '1000' })
  const known = { payment: paid, order: order('completed') }
  expect(told(known)).toEqual(['buyer x402.request', 'seller x402.response', 'nobody claim'])
  expect(field(known, 'x402.request', 'channel')).toBe('0xchannel')
  expect(field(known, 'x402.request', 'signature')).toBeUndefined()
  expect(field(known, 'x402.response', 'charge')).toMatch(/^1000 /)
})

test('the signature answers the challenge, and values that no ledger stores are not invented', () => {
  const known = { payment: payment(), order: order('completed') }
  expect(field(known, 'x402.payment_required', 'challenge_nonce')).toBe(nonce)
  expect(field(known, 'x402.paid_request', 'server_nonce')).toBe(nonce)
  expect(field(known, 'x402.payment_required', 'challenge_expires_at')).toBeNull()
  expect(field(known, 'x402.response', 'tx_hash')).toBeNull()
  expect(field(known, 'settlement', 'transaction')).toBe('0xtx')
  const preemptive = { payment: payment({ challenge_nonce: null }), order: order('completed') }
  expect(field(preemptive, 'x402.request', 'server_nonce')).toBe('preemptive')
})

test.each(Object.entries(x402Errors))('an error of the seller has its code: %s', (name, { code }) => {
  expect(field({ order: failed(name) }, 'x402.error', 'error_code')).toBe(String(code))
})
