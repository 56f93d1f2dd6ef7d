import { secp256k1 } from '../../src/payments/secp256k1.ts'

const digest = Buffer.alloc(32, 7)
const privateKey = Buffer.alloc(32, 1)
const signature = secp256k1.sign(digest, privateKey)

/** The cost of making a payment or a receipt: one signature and nothing else. */
export function makeSignature(): void {
  secp256k1.sign(digest, privateKey)
}

/** The cost of checking a payment or a receipt: one recovery. */
export function recoverSignature(): void {
  if (secp256k1.recover(digest, signature) === undefined) throw new Error('the curve does not know its own signature')
}

/** Does a piece of work once for all who ask in one turn of the event loop, as receipts share a signature (ADR-33). */
export function oncePerTurn(work: () => void): () => Promise<void> {
  let turn: Promise<void> | undefined
  return () => {
    turn ??= new Promise((resolve) =>
      setImmediate(() => {
        turn = undefined
        work()
        resolve()
      }),
    )
    return turn
  }
}
