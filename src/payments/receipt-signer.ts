import type { Receipt, ReceiptForm, SignedReceipt, SignedX402Receipt, X402Receipt } from '../schema/receipt.ts'
import type { SignedX402Offer, X402Offer } from '../schema/x402-http.ts'
import { signTogether } from './merkle-receipt.ts'
import type { Wallet } from './wallet.ts'

/** Signs the receipts of a seller. */
export interface ReceiptSigner {
  /** `merkle`: one signature for all receipts that are asked for in this turn of the event loop. */
  sign(receipt: Receipt, form: ReceiptForm): Promise<SignedReceipt>
  signX402(receipt: X402Receipt): SignedX402Receipt
  signOffer(offer: X402Offer): SignedX402Offer
}

type Waiting = { receipt: Receipt; resolve(signed: SignedReceipt): void; reject(reason: unknown): void }

/** Nothing waits for a clock: the receipts of a turn are signed at its end, whether there are many or one. */
export function createReceiptSigner(
  wallet: Pick<Wallet, 'signReceipt' | 'signReceiptRoot' | 'signX402Receipt' | 'signX402Offer'>,
): ReceiptSigner {
  let turn: Waiting[] = []

  function signTurn(): void {
    const leaving = turn
    turn = []
    try {
      const receipts = leaving.map(({ receipt }) => receipt)
      const signed = signTogether(receipts, wallet.signReceiptRoot)
      for (const [at, { resolve }] of leaving.entries()) resolve(signed[at]!)
    } catch (error) {
      for (const { reject } of leaving) reject(error)
    }
  }

  return {
    async sign(receipt, form) {
      if (form === 'eip712') return wallet.signReceipt(receipt)
      if (turn.length === 0) setImmediate(signTurn)
      return new Promise((resolve, reject) => turn.push({ receipt, resolve, reject }))
    },
    signX402: wallet.signX402Receipt,
    signOffer: wallet.signX402Offer,
  }
}
