import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { payTo, randomHex, requirements, signed, testWallet, usdc } from '../../test/support/payments.ts'
import type { PaymentEnvelope, PaymentRequirements } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import { assets } from './assets.ts'
import { authorizationDigest, signDigest } from './authorization.ts'
import { coversRun, proveSigner, verifyPayment } from './verify.ts'

const now = Date.UTC(2026, 0, 1, 12, 0, 0, 500)
const seconds = BigInt(Math.floor(now / 1000))
const key = Buffer.alloc(32, 1)
type Authorization = NonNullable<PaymentEnvelope['payload']>['authorization']

/** A payment whose authorization is changed before it is signed, as a buyer of bad will can sign anything. */
function signedAs(changes: Partial<Authorization>, envelope: Partial<PaymentEnvelope> = {}): PaymentEnvelope {
  const good = signed(now).envelope
  const authorization = { ...good.payload!.authorization, ...changes }
  const signature = signDigest(authorizationDigest(usdc, authorization), key)
  return { ...good, payload: { signature, authorization }, ...envelope }
}
const verify = (payment: PaymentEnvelope, asked: PaymentRequirements = requirements()) =>
  verifyPayment(payment, asked, now)
const alter = (payment: PaymentEnvelope, change: (signature: Hex) => Hex): PaymentEnvelope => ({
  ...payment,
  payload: { ...payment.payload!, signature: change(payment.payload!.signature as Hex) },
})

test('a payment as the client signs it is accepted, and says what it pays with', () => {
  const { paymentId, envelope } = signed(now)
  expect(verify(envelope)).toEqual({
    ok: true,
    payment: { paymentId, payer: testWallet().address, signed: envelope.payload },
  })
})

describe('refuses with PAYMENT_INVALID (2001)', () => {
  const other = testWallet(2).address
  const cases: [string, PaymentEnvelope, RegExp][] = [
    ['a payment without payload', { ...signed(now).envelope, payload: undefined }, /no payload/],
    ['another scheme', { ...signed(now).envelope, scheme: 'upto' }, /scheme/],
    ['another network', { ...signed(now).envelope, network: 'eip155:8453' }, /network/],
    ['a network of nobody', { ...signed(now).envelope, network: 'eip155:1' }, /network/],
    ['the name of every object as network', { ...signed(now).envelope, network: '__proto__' }, /network/],
    ['an authorization that pays another', signedAs({ to: other }), new RegExp(`must pay ${payTo}`)],
    ['an authorization from another than the payer', signedAs({ from: other }), /payer differs/],
    ['another payer than the authorization names', signedAs({}, { payer: other }), /payer differs/],
    [
      'another as payer and in the authorization (forged)',
      signedAs({ from: other }, { payer: other }),
      /not the payer/,
    ],
    [
      'a signature of v 29',
      alter(signed(now).envelope, (text) => `${text.slice(0, -2)}1d` as Hex),
      /v of the signature/,
    ],
    ['a signature of nothing', alter(signed(now).envelope, () => `0x${'00'.repeat(64)}1b`), /no key/],
    ['a signature of high s', alter(signed(now).envelope, highS), /upper half/],
    ['a flipped bit', alter(signed(now).envelope, (text) => flip(text)), /.+/],
    ['a start in the future', signedAs({ validAfter: seconds + 1n }), /not valid yet/],
    ['a window of the far future', signedAs({ validAfter: 2n ** 255n, validBefore: 2n ** 256n - 1n }), /not valid yet/],
    ['an end in the past', signedAs({ validBefore: seconds - 1n }), /expires before/],
    ['an end of 0', signedAs({ validBefore: 0n }), /expires before/],
    ['an end 5 s from now', signedAs({ validBefore: seconds + 5n }), /expires before/],
    ['an end beyond the window and the skew', signedAs({ validBefore: seconds + 271n }), /longer than maxTimeout/],
    ['no end at all', signedAs({ validBefore: 2n ** 256n - 1n }), /longer than maxTimeout/],
  ]
  test.each(cases)('%s', (_what, payment, reason) => {
    expect(verify(payment)).toEqual({ ok: false, error: 'PAYMENT_INVALID', reason: expect.stringMatching(reason) })
  })

  test('a signature under the other network’s domain, which could never settle (T14)', () => {
    const good = signed(now).envelope
    const authorization = good.payload!.authorization
    const signature = signDigest(authorizationDigest(assets['eip155:8453'], authorization), key)
    expect(verify({ ...good, payload: { signature, authorization } })).toMatchObject({ error: 'PAYMENT_INVALID' })
  })

  test('any asset but the network’s USDC', () => {
    const asked = requirements({ asset: payTo })
    expect(verify(signed(now).envelope, asked)).toMatchObject({ error: 'PAYMENT_INVALID', reason: /asset/ })
  })
})

test.each([0n, 1n, 9_999n, 10_001n, 2n ** 256n - 1n])(
  'refuses %s instead of 10000 with PAYMENT_AMOUNT_WRONG (2005)',
  (value) => {
    expect(verify(signedAs({ value }))).toMatchObject({ ok: false, error: 'PAYMENT_AMOUNT_WRONG' })
  },
)

describe('D28: the window', () => {
  test.each([
    ['starts now', { validAfter: seconds }],
    ['has always been open', { validAfter: 0n }],
    ['ends in 6 s', { validBefore: seconds + 6n }],
    ['is as wide as agreed, and the buyer’s clock 30 s ahead', { validBefore: seconds + 270n }],
  ])('is accepted when it %s', (_what, changes) => {
    expect(verify(signedAs(changes))).toMatchObject({ ok: true })
  })

  test('of an hour is accepted only where the caller allows it, and no longer one is', () => {
    const verifyAt = (validBefore: bigint, windowSeconds: number) =>
      verifyPayment(signedAs({ validBefore: seconds + validBefore }), requirements(), now, { windowSeconds }).ok
    expect([verifyAt(3_630n, 3_600), verifyAt(3_631n, 3_600), verifyAt(3_600n, 0)]).toEqual([true, false, false])
    expect(verifyAt(270n, 60)).toBe(true)
  })

  test('of our own client is accepted by a seller whose clock is up to 30 s behind or as far ahead as the window allows', () => {
    const { envelope } = signed(now)
    for (const skew of [-30, -1, 0, 1, 60, 173]) {
      expect(verifyPayment(envelope, requirements(), now + skew * 1000)).toMatchObject({ ok: true })
    }
    for (const skew of [-91, 175, 3600, -3600]) {
      expect(verifyPayment(envelope, requirements(), now + skew * 1000)).toMatchObject({ error: 'PAYMENT_INVALID' })
    }
  })
})

test('D51 T22: a window covers a run that may take its time limit, and 30 s in which it is settled', () => {
  const payment = signed(now).envelope.payload!
  const left = Number(payment.authorization.validBefore) * 1000 - now
  expect(coversRun(payment, left - 30_000, now)).toBe(true)
  expect(coversRun(payment, left - 29_999, now)).toBe(false)
  expect(coversRun(payment, left - 30_000, now + 1)).toBe(false)
})

describe('D27: the first check that fails names the error', () => {
  const wrongAll = { to: payTo.replace('22', '33') as Hex, value: 1n, validBefore: 0n }
  test('payTo before signature, amount and window', () => {
    const payment = alter(signedAs(wrongAll), (text) => flip(text))
    expect(verify(payment)).toMatchObject({ error: 'PAYMENT_INVALID', reason: /must pay/ })
  })
  test('signature before amount and window', () => {
    const payment = alter(signedAs({ value: 1n, validBefore: 0n }), highS)
    expect(verify(payment)).toMatchObject({ error: 'PAYMENT_INVALID', reason: /upper half/ })
  })
  test('amount before window', () => {
    expect(verify(signedAs({ value: 1n, validBefore: 0n }))).toMatchObject({ error: 'PAYMENT_AMOUNT_WRONG' })
  })
})

test('D30: v of 0 or 1 is accepted, and goes on as 27 or 28', () => {
  const { envelope } = signed(now)
  const asGo = alter(envelope, (text) => `${text.slice(0, -2)}${text.endsWith('1b') ? '00' : '01'}` as Hex)
  expect(verify(asGo)).toMatchObject({ ok: true, payment: { signed: { signature: envelope.payload!.signature } } })
})

test('addresses are compared whatever their letters’ case', () => {
  const { envelope } = signed(now)
  const lower = structuredClone(envelope)
  lower.payer = lower.payer.toLowerCase() as Hex
  lower.payload!.authorization.from = lower.payload!.authorization.from.toUpperCase().replace('0X', '0x') as Hex
  expect(verify(lower, requirements({ asset: usdc.address.toLowerCase() as Hex }))).toMatchObject({ ok: true })
})

test('no change of a single field of a signed payment is accepted', () => {
  const { envelope } = signed(now)
  const uint = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n })
  const hex = (length: number) => fc.uint8Array({ minLength: length, maxLength: length }).map(toHex)
  const changes = fc.oneof(
    fc.record({ from: hex(20) }),
    fc.record({ to: hex(20) }),
    fc.record({ value: uint }),
    fc.record({ validAfter: uint }),
    fc.record({ validBefore: uint }),
    fc.record({ nonce: hex(32) }),
  ) as fc.Arbitrary<Partial<Authorization>>
  fc.assert(
    fc.property(changes, (change) => {
      const authorization = { ...envelope.payload!.authorization, ...change }
      const payment = { ...envelope, payload: { ...envelope.payload!, authorization } }
      expect(verify(payment)).toMatchObject({ ok: false })
    }),
    { numRuns: 300 },
  )
})

describe('proveSigner, by which a result is asked for (D32)', () => {
  test('takes a payment whose window has passed: it proves who paid, and buys nothing', () => {
    const { paymentId, envelope } = signed(0, { authorizationNonce: randomHex() })
    expect(proveSigner(envelope, usdc)).toMatchObject({ ok: true, payment: { paymentId } })
  })
  test.each([
    ['no payload', { ...signed(now).envelope, payload: undefined }],
    ['another network', { ...signed(now).envelope, network: 'eip155:8453' }],
    ['another payer', { ...signed(now).envelope, payer: testWallet(2).address }],
    ['a forged signature', alter(signed(now).envelope, flip)],
  ])('refuses %s', (_what, payment) => {
    expect(proveSigner(payment, usdc)).toMatchObject({ ok: false, error: 'PAYMENT_INVALID' })
  })
})

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

/** The other signature of the same signer, which most libraries accept and USDC does not. */
function highS(signature: Hex): Hex {
  const s = ORDER - BigInt(`0x${signature.slice(66, 130)}`)
  const v = signature.endsWith('1b') ? '1c' : '1b'
  return `${signature.slice(0, 66)}${s.toString(16).padStart(64, '0')}${v}` as Hex
}

function flip(signature: Hex): Hex {
  const bytes = Buffer.from(signature.slice(2), 'hex')
  bytes[40]! ^= 1
  return `0x${bytes.toString('hex')}`
}

function toHex(bytes: Uint8Array): Hex {
  return `0x${Buffer.from(bytes).toString('hex')}`
}

test('D49: accounts and nonce come back in one spelling, whatever letters they came in', () => {
  const { paymentId, envelope } = signed(now)
  const shouting = (text: string) => `0x${text.slice(2).toUpperCase()}` as Hex
  const { authorization, signature } = envelope.payload!
  const { from, to, nonce } = authorization
  const spelled = { ...authorization, from: shouting(from), to: shouting(to), nonce: shouting(nonce) }
  const payment = { ...envelope, payer: shouting(envelope.payer), payload: { signature, authorization: spelled } }
  expect(verify(payment)).toEqual({
    ok: true,
    payment: { paymentId, payer: testWallet().address, signed: envelope.payload },
  })
})
