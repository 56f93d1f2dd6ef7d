import { expect, test } from 'vitest'
import { agentId, sellerWallet, signed, testWallet } from '../../test/support/payments.ts'
import type { Hex } from '../schema/primitives.ts'
import { receiptOf } from './receipt.ts'
import { proveReceipt } from './receipt-proof.ts'

const now = Date.UTC(2026, 10, 21)
const { paymentId, envelope } = signed(now)
const { from, to, value, validAfter, validBefore, nonce } = envelope.payload!.authorization
const authorization = {
  ...{ from, to, nonce, value: `${value}` },
  ...{ validAfter: `${validAfter}`, validBefore: `${validBefore}` },
}
const delivery = { network: 'eip155:84532', agentId, payer: from, paymentId, task: 'task', result: 'result' }
const receipt = sellerWallet.signReceipt(receiptOf(delivery, now))
const bytes = (text: string) => Buffer.from(text)

test('with all at hand it proves signer, payment, task and result, and never that money moved', () => {
  const proof = proveReceipt({ receipt, authorization, task: bytes('task'), result: bytes('result') })
  expect(proof).toMatchObject({ ok: true, signer: sellerWallet.address, failed: [] })
  expect(proof.proven).toEqual([
    `account ${sellerWallet.address} signed it, every field as it stands here`,
    `it is about the authorization of 0.01 USDC from ${from} to ${to} on eip155:84532`,
    'the signer is the account that this payment pays',
    'the task is the one given, byte for byte',
    'the result is the one given, byte for byte',
  ])
  expect(proof.unproven.join()).toContain('that money moved: only the chain shows that')
  expect(proof.unproven.join()).toContain('2026-11-21T00:00:00.000Z: that is the word of the signer')
})

test('alone it proves who signed, and says what it would take to prove the rest', () => {
  const proof = proveReceipt({ receipt })
  expect([proof.ok, proof.proven.length]).toEqual([true, 1])
  expect(proof.unproven.join()).toMatch(/authorization is not at hand.*--task <file>.*--result <file>/)
})

const other = testWallet(5)
const resigned = (changes: object, wallet = sellerWallet) => wallet.signReceipt({ ...receipt.payload, ...changes })
test.each([
  [
    'another authorization',
    { receipt, authorization: { ...authorization, value: '20000' } },
    'not about the authorization',
  ],
  ['a signer that is not paid', { receipt: resigned({}, other), authorization }, 'the signer is not the account'],
  ['another payer', { receipt: resigned({ payer: other.address }), authorization }, 'as payer'],
  ['another task', { receipt, authorization, task: bytes('Task') }, 'the task given is another'],
  ['another result', { receipt, authorization, result: bytes('') }, 'the result given is another'],
  [
    'a changed amount of money moved by nobody',
    { receipt: { ...receipt, signature: `0x${'f'.repeat(130)}` as Hex }, authorization },
    'nobody can have made this signature',
  ],
])('%s contradicts it', (_about, evidence, reason) => {
  const proof = proveReceipt(evidence)
  expect(proof.ok).toBe(false)
  expect(proof.failed.join()).toContain(reason)
})

test('a field that was changed shows as another signer', () => {
  const changed = { ...receipt, payload: { ...receipt.payload, issuedAt: receipt.payload.issuedAt - 1 } }
  expect(proveReceipt({ receipt: changed, authorization }).ok).toBe(false)
})
