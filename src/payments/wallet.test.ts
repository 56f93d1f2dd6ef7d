import fc from 'fast-check'
import { expect, test } from 'vitest'
import { payTo, randomHex, requirements, testWallet, usdc } from '../../test/support/payments.ts'
import { readVectors } from '../../test/support/read-vectors.ts'
import type { Hex } from '../schema/primitives.ts'
import { verifyPayment } from './verify.ts'
import { createWallet } from './wallet.ts'

const now = Date.UTC(2026, 0, 1)
const nonce = randomHex()
const authorize = (maxTimeoutSeconds = 240) =>
  testWallet().authorize(requirements({ maxTimeoutSeconds }), { serverNonce: nonce, authorizationNonce: nonce }, now)

test('the address of a wallet is that of its key', () => {
  const { authorizations } = readVectors<{
    authorizations: { private_key: Hex; authorization: { from: Hex } }[]
  }>('authorizations')
  for (const { private_key, authorization } of authorizations) {
    expect(createWallet(private_key, usdc).address).toBe(authorization.from)
  }
})

test('D30: what is signed is exactly what was asked for, under the challenge’s nonce', () => {
  const { envelope } = authorize()
  expect(envelope).toMatchObject({
    x402_version: 2,
    scheme: 'exact',
    network: usdc.network,
    server_nonce: nonce,
    payer: testWallet().address,
    payload: { authorization: { from: testWallet().address, to: payTo, value: 10_000n, nonce } },
  })
})

test.each([
  [240, 60],
  [3720, 60],
  [100, 25],
  [7, 1],
  [1, 0],
])('D28: a window of %i s starts %i s in the past', (windowSeconds, backSeconds) => {
  const { validAfter, validBefore } = authorize(windowSeconds).envelope.payload!.authorization
  expect(validBefore - validAfter).toBe(BigInt(windowSeconds))
  expect(BigInt(now / 1000) - validAfter).toBe(BigInt(backSeconds))
})

test('every payment this wallet signs passes the seller’s verification of the same requirements', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 9, max: 86_400 }),
      fc.bigInt({ min: 0n, max: 10n ** 12n }),
      (maxTimeoutSeconds, amount) => {
        const asked = requirements({ maxTimeoutSeconds, amount })
        const serverNonce = randomHex()
        const { paymentId, envelope } = testWallet().authorize(
          asked,
          { serverNonce, authorizationNonce: serverNonce },
          now,
        )
        expect(verifyPayment(envelope, asked, now)).toMatchObject({ ok: true, payment: { paymentId } })
      },
    ),
  )
})

test.each([
  ['an asset that is not USDC', { asset: payTo }],
  ['USDC of the other network', { network: 'eip155:8453' }],
  ['a network of nobody', { network: 'eip155:1' }],
  ['the name of every object', { network: 'constructor' }],
])('T14: %s is not signed for', (_what, changes) => {
  const nonces = { serverNonce: nonce, authorizationNonce: nonce }
  expect(() => testWallet().authorize(requirements(changes), nonces, now)).toThrow(
    expect.objectContaining({ code: 'ASSET_UNKNOWN' }),
  )
})

test.each([
  ['zero', `0x${'00'.repeat(32)}`],
  ['the order of the curve', '0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141'],
  ['31 bytes', `0x${'77'.repeat(31)}`],
  ['no hex', `0x${'zz'.repeat(32)}`],
])('T21: a key of %s is refused without being told', (_what, key) => {
  const digits = key.slice(2, 20)
  try {
    createWallet(key as Hex, usdc)
    expect.unreachable()
  } catch (error) {
    expect(error).toMatchObject({ code: 'WALLET_KEY_INVALID' })
    expect(String((error as Error).stack)).not.toContain(digits)
  }
})

test('T31 the keys of channels are derived once: doors ask for the address of one with each request of a stranger', () => {
  const wallet = testWallet()
  expect(wallet.channelSigner('claims')).toBe(wallet.channelSigner('claims'))
  expect(wallet.channelSigner('vouchers').address).not.toBe(wallet.channelSigner('claims').address)
})
