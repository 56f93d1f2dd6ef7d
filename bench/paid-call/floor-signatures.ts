import { secp256k1 } from '../../src/payments/secp256k1.ts'

const digest = Buffer.alloc(32, 7)
const privateKey = Buffer.alloc(32, 1)
const signature = secp256k1.sign(digest, privateKey)

/** What a payment costs who makes it, and a receipt: one signature, and nothing around it. */
export function makeSignature(): void {
  secp256k1.sign(digest, privateKey)
}

/** What either costs who is given it: one recovery. */
export function recoverSignature(): void {
  if (secp256k1.recover(digest, signature) === undefined) throw new Error('the curve does not know its own signature')
}
