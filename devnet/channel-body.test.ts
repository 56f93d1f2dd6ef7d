import { describe, expect, it } from 'vitest'
import { channelVectors } from '../test/support/channel-vectors.ts'
import { parsePaymentBody } from './payment-body.ts'

type Json = Record<string, unknown>
const { paymentPayload } = channelVectors.deposits[0]!
const { channelConfig, voucher } = paymentPayload.payload as { channelConfig: Json; voucher: Json }
/** What a seller's own calls require. */
const requirements = { ...paymentPayload.accepted, amount: '0', maxTimeoutSeconds: 0, extra: {} }
const claim = {
  voucher: { channel: channelConfig, maxClaimableAmount: '1000' },
  ...{ signature: voucher.signature, totalClaimed: '700' },
}
const payloads: Record<string, Json> = {
  deposit: paymentPayload.payload as Json,
  voucher: { type: 'voucher', channelConfig, voucher },
  refund: { type: 'refund', channelConfig, voucher, amount: '5', refundNonce: '0', claims: [claim] },
  claim: { type: 'claim', claims: [claim], claimAuthorizerSignature: voucher.signature },
  settle: { type: 'settle', receiver: channelConfig.receiver, token: channelConfig.token },
}
const bodyOf = (payload: Json, changes: Json = {}) => {
  const accepted = { ...requirements, ...changes }
  return { x402Version: 2, paymentPayload: { x402Version: 2, accepted, payload }, paymentRequirements: accepted }
}

describe('a request about a channel', () => {
  it.each(Object.entries(payloads))('to %s is read, and handed on as it came', (_, payload) => {
    const body = bodyOf(payload)
    expect(parsePaymentBody(body)).toBe(body)
  })

  const wrongSum = '0x08c86b491A37C2FFC25072a17c7A97EF2D0357dd'
  it.each<[string, string, Json, Json?]>([
    ['an unknown kind', 'payload.type', { type: 'open' }],
    ['no kind', 'payload.type', {}],
    ['an amount that is no number', 'voucher.maxClaimableAmount', changed('abc')],
    ['an amount in hex', 'voucher.maxClaimableAmount', changed('0x3e8')],
    ['an amount below 0', 'voucher.maxClaimableAmount', changed('-1')],
    ['an amount of 129 bits', 'voucher.maxClaimableAmount', changed(`${2n ** 128n}`)],
    [
      'a wrong checksum',
      'channelConfig.payer',
      { ...payloads.voucher, channelConfig: { ...channelConfig, payer: wrongSum } },
    ],
    ['half a channel', 'channelConfig', { type: 'voucher', voucher }],
    [
      'a delay as text',
      'withdrawDelay',
      { ...payloads.voucher, channelConfig: { ...channelConfig, withdrawDelay: '900' } },
    ],
    [
      'a deposit without authorization',
      'authorization',
      { ...payloads.deposit, deposit: { amount: '5', authorization: {} } },
    ],
    ['a claim without rows', 'payload.claims', { type: 'claim' }],
    ['a row without signature', 'claims.0.signature', { type: 'claim', claims: [{ ...claim, signature: undefined }] }],
    ['a receiver that is no address', 'payload.receiver', { ...payloads.settle, receiver: 'alice' }],
    ['a time limit below 0', 'accepted.maxTimeoutSeconds', payloads.settle!, { maxTimeoutSeconds: -1 }],
    ['an amount to pay that is no number', 'accepted.amount', payloads.settle!, { amount: '1.5' }],
  ])('with %s is refused by the name of the field', (_, field, payload, changes) => {
    const refusal = expect.stringMatching(new RegExp(`^paymentPayload\\..*${field.replaceAll('.', '\\.')}`))
    expect(() => parsePaymentBody(bodyOf(payload, changes))).toThrow(RangeError)
    expect(reasonOf(bodyOf(payload, changes))).toEqual(refusal)
  })

  it('of another version is refused', () => {
    const body = bodyOf(payloads.settle!)
    const old = { ...body, paymentPayload: { ...body.paymentPayload, x402Version: 1 } }
    expect(reasonOf(old)).toMatch(/^paymentPayload\.x402Version/)
  })
})

function changed(maxClaimableAmount: string): Json {
  return { ...payloads.voucher, voucher: { ...voucher, maxClaimableAmount } }
}

function reasonOf(body: unknown): string {
  try {
    parsePaymentBody(body)
  } catch (error) {
    return (error as Error).message
  }
  return 'read'
}
