import { randomBytes } from 'node:crypto'
import { assetOf } from '../../src/payments/assets.ts'
import { authorizationDigest, signDigest } from '../../src/payments/authorization.ts'
import { addressOfPublicKey, checksumAddress, secp256k1 } from '../../src/payments/secp256k1.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { NETWORK } from '../paid-call/terms.ts'

/** What a 402 of x402 v2 asks, as far as a buyer reads it. */
export type Asked = {
  resource: object
  extensions?: object
  accepts: { amount: string; payTo: Hex; maxTimeoutSeconds: number }[]
}

/** A seller limits the requests of one account, so the payments come from many. */
const PAYERS = 256
const payers = Array.from({ length: PAYERS }, () => {
  const key = randomBytes(32)
  return { key, address: addressOfPublicKey(secp256k1.publicKey(key)) }
})
const asset = assetOf(NETWORK)!

/** Payments for these terms, each as the header of its request. They are what `@x402/fetch` sends, which signs 20 times slower. */
export function signPayments(asked: Asked, count: number): string[] {
  const { accepts, resource, extensions } = asked
  const accepted = accepts[0]!
  const validBefore = Math.floor(Date.now() / 1000) + accepted.maxTimeoutSeconds
  return Array.from({ length: count }, (_, index) => {
    const { key, address } = payers[index % PAYERS]!
    const nonce: Hex = `0x${randomBytes(32).toString('hex')}`
    const words = { from: address, to: checksumAddress(accepted.payTo), nonce }
    const times = { validAfter: 0n, validBefore: BigInt(validBefore) }
    const digest = authorizationDigest(asset, { ...words, ...times, value: BigInt(accepted.amount) })
    const authorization = { ...words, value: accepted.amount, validAfter: '0', validBefore: String(validBefore) }
    const payload = { signature: signDigest(digest, key), authorization }
    return encoded({ x402Version: 2, resource, accepted, payload, ...(extensions && { extensions }) })
  })
}

function encoded(payment: object): string {
  return Buffer.from(JSON.stringify(payment)).toString('base64')
}
