import { MarketError } from '../listings/market-error.ts'
import { PeerError } from '../protocols/peer-error.ts'
import { UnreadableAnswer } from '../protocols/x402/answers.ts'
import { SellerSilent } from '../protocols/x402/first-answer.ts'
import { TaskTooLong } from '../protocols/x402/wrapped-body.ts'
import { type X402ErrorName, x402Errors } from '../schema/x402.ts'

/** The signed payment as a seller gets it: with the task, in a request for its result, or with the task once more. */
type SignedRequest = 'payment' | 'result' | 'payment again'

/**
 * What follows from an error.
 *
 * - `last word`: asking again with this payment cannot help, or this node refused.
 * - `ask again`: in doubt. The payment may have bought a result, so ask for the result.
 * - `send again`: the seller never saw the payment. Send the same payment again while its window allows a run.
 * - `other stream`: nothing was signed. A stream that was kept open may have ended unnoticed: use a new stream.
 */
type Outcome = 'last word' | 'ask again' | 'send again' | 'other stream'

/** The seller's `retryable` flag decides: `ask again` if it is set, else `last word`. */
const FLAG = 'flag'
const byFlag = { payment: FLAG, result: FLAG, 'payment again': FLAG } as const

/** What a seller's error says about a signed payment. */
const outcomes: Readonly<Record<X402ErrorName, Record<SignedRequest, Outcome | typeof FLAG>>> = {
  INVALID_MESSAGE: byFlag,
  UNKNOWN_RESOURCE: byFlag,
  // Asked for the result, the seller says that it never saw the payment.
  PAYMENT_REQUIRED: { ...byFlag, result: 'send again' },
  PAYMENT_INVALID: byFlag,
  // The seller forgot its challenge, after a restart or because it had too many. It accepts the payment without one.
  PAYMENT_NONCE_MISMATCH: { ...byFlag, payment: 'ask again' },
  PAYMENT_NONCE_EXPIRED: byFlag,
  // An earlier copy of the payment arrived, so there is a result to ask for.
  PAYMENT_NONCE_USED: { ...byFlag, payment: 'ask again', 'payment again': 'ask again' },
  PAYMENT_AMOUNT_WRONG: byFlag,
  SETTLEMENT_FAILED: byFlag,
  // A failed run voids its payment. Its flag means that a new purchase may succeed.
  EXECUTION_FAILED: { payment: 'last word', result: 'last word', 'payment again': 'last word' },
  OVERLOADED: byFlag,
}

/**
 * Returns what follows from an error of an exchange with a seller.
 *
 * @param request the signed request that failed; undefined: nothing was signed
 */
export function outcomeOf(error: unknown, request: SignedRequest | undefined): Outcome {
  if (request === undefined) return isAnswer(error) ? 'last word' : 'other stream'
  if (!(error instanceof PeerError)) {
    // After the payment was sent, this node refuses only what it would have to sign anew.
    return error instanceof MarketError && request === 'payment' ? 'last word' : 'ask again'
  }
  // An answer that cannot be read says nothing about the payment.
  if (error instanceof UnreadableAnswer) return 'ask again'
  const outcome = error.isForeign ? FLAG : outcomes[error.code][request]
  return outcome !== FLAG ? outcome : error.retryable ? 'ask again' : 'last word'
}

/**
 * True if another process of the seller may take a call that this one did not. Nothing was signed.
 *
 * A process may stop, have no room, not sell the agent, or not know its new price yet.
 */
export function mayAskElsewhere(error: unknown): boolean {
  if (error instanceof UnreadableAnswer) return false
  if (error instanceof PeerError) return error.code === 'OVERLOADED' || error.code === 'UNKNOWN_RESOURCE'
  if (error instanceof MarketError) return error.code === 'LISTING_MISMATCH'
  return !isAnswer(error)
}

/** True if the error is not a failure of the stream: the seller, this node, or the time limit has decided. */
function isAnswer(error: unknown): boolean {
  return [PeerError, MarketError, SellerSilent, TaskTooLong].some((kind) => error instanceof kind)
}

/**
 * True if an order that failed may still be charged or get its result. It stays open, and the recovery asks for it.
 *
 * A seller's error that reaches the order was its last word. After an abort, this node's own error is not.
 */
export function isInDoubt(error: unknown, { isSigned, isAborted }: { isSigned: boolean; isAborted: boolean }): boolean {
  if (!isSigned || error instanceof PeerError) return false
  return isAborted || outcomeOf(error, 'payment') !== 'last word'
}

const CHARGED_LATER: ReadonlySet<string> = new Set<X402ErrorName>(['SETTLEMENT_FAILED', 'PAYMENT_REQUIRED'])

/**
 * Returns what the stored error of a failed, signed order says about its payment. Only a seller's answer says that
 * nothing is charged. A seller that settles before its agent runs, or that is still settling, may charge all the same. A
 * seller that never saw the payment may get it yet, from a process of this node that stood still and was given up.
 */
export function chargeAfter(code: string | undefined, settlesFirst: boolean): 'none' | 'possible' | 'unknown' {
  if (code === undefined || !Object.hasOwn(x402Errors, code)) return 'unknown'
  return settlesFirst || CHARGED_LATER.has(code) ? 'possible' : 'none'
}
