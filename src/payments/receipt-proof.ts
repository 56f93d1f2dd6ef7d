import { formatAmount } from '../schema/amount.ts'
import { Authorization } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import type { SignedReceipt, SignedX402Receipt } from '../schema/receipt.ts'
import type { ReceiptRecord } from '../schema/receipt-record.ts'
import { assetOf, sameAddress } from './assets.ts'
import { authorizationDigest, paymentIdOf } from './authorization.ts'
import { channelId } from './channel-digests.ts'
import { channelCallId } from './channels/call-id.ts'
import { contentHash, receiptSigner } from './receipt.ts'
import { x402ReceiptSigner } from './x402-receipt.ts'

/** What a receipt proves, what contradicts it, and what it cannot prove. Text for people. */
export type Proof = { ok: boolean; signer?: Hex; proven: string[]; failed: string[]; unproven: string[] }

export type Evidence = {
  receipt: SignedReceipt
  authorization?: ReceiptRecord['authorization'] | undefined
  /** The call on a channel that was paid, instead of an authorization. */
  channel?: ReceiptRecord['channel'] | undefined
  task?: Uint8Array | undefined
  result?: Uint8Array | undefined
  /** The account that should have signed it. */
  expected?: string | undefined
}

/**
 * Judges a receipt offline. Trusts only what the signature covers, directly or by hash: the authorization counts only
 * if its digest equals the signed payment id.
 */
export function proveReceipt({ receipt, authorization, channel, task, result, expected }: Evidence): Proof {
  const { payload } = receipt
  const proof = { proven: [] as string[], failed: [] as string[], unproven: [] as string[] }
  const signer = receiptSigner(receipt)
  if (signer === undefined) {
    proof.failed.push('nobody can have made this signature over this receipt')
    return { ok: false, ...proof }
  }
  proof.proven.push(`account ${signer} signed it, every field as it stands here${placeText(receipt)}`)
  judgeSigner(signer, expected, proof)
  if (channel === undefined) judgePayment(receipt, authorization, signer, proof)
  else judgeCall(receipt, channel, signer, proof)
  judgeContent('task', payload.taskHash, task, proof)
  judgeContent('result', payload.resultHash, result, proof)
  proof.unproven.push(
    `that it was signed at ${timeText(payload.issuedAt)}: that is the word of the signer`,
    `that money moved: only the chain shows that, by ${channel === undefined ? 'the authorization or its transaction' : 'the claims of the channel'}`,
    'that the result is any good',
  )
  return { ok: proof.failed.length === 0, signer, ...proof }
}

/**
 * Judges a receipt of x402's offer-receipt extension offline. It names no payment, task or result.
 *
 * @param expected the account that should have signed it
 */
export function proveX402Receipt(receipt: SignedX402Receipt, expected?: string): Proof {
  const { payer, resourceUrl, network, transaction, issuedAt } = receipt.payload
  const proof = { proven: [] as string[], failed: [] as string[], unproven: [] as string[] }
  const signer = x402ReceiptSigner(receipt)
  if (signer === undefined) {
    proof.failed.push('nobody can have made this signature over this receipt')
    return { ok: false, ...proof }
  }
  proof.proven.push(
    `account ${signer} signed it, every field as it stands here`,
    `it says that ${payer} paid in transaction ${transaction} on ${network} for ${resourceUrl}, and was served`,
  )
  judgeSigner(signer, expected, proof)
  proof.unproven.push(
    `that it was served at ${timeText(issuedAt)}: that is the word of the signer`,
    'that the transaction paid the signer: only the chain shows that',
    'what the task and the result were: only the receipt that came with the result says that',
  )
  return { ok: proof.failed.length === 0, signer, ...proof }
}

function placeText(receipt: SignedReceipt): string {
  if (receipt.format !== 'merkle' || receipt.treeSize === 1) return ''
  return `, with ${receipt.treeSize - 1} others under one signature`
}

function judgeSigner(signer: Hex, expected: string | undefined, { proven, failed }: Lists): void {
  if (expected === undefined) return
  if (sameAddress(signer, expected)) proven.push('that is the account that was expected')
  else failed.push(`the account that was expected is ${expected}`)
}

type Lists = Omit<Proof, 'ok' | 'signer'>

function judgePayment(
  { payload }: SignedReceipt,
  given: Evidence['authorization'],
  signer: Hex,
  { proven, failed, unproven }: Lists,
): void {
  const asset = assetOf(payload.network)
  const authorization = given === undefined ? undefined : Authorization.safeParse(given).data
  if (authorization === undefined || asset === undefined) {
    const why = asset === undefined ? `${payload.network} is unknown here` : 'the authorization is not at hand'
    unproven.push(`which account is paid, and how much, by payment ${payload.paymentId}: ${why}`)
    return
  }
  if (paymentIdOf(authorizationDigest(asset, authorization)) !== payload.paymentId) {
    failed.push(`it is about payment ${payload.paymentId}, not about the authorization beside it`)
    return
  }
  const { from, to, value } = authorization
  const amount = `${formatAmount(value, asset.decimals)} ${asset.symbol}`
  proven.push(`it is about the authorization of ${amount} from ${from} to ${to} on ${payload.network}`)
  if (sameAddress(signer, to)) proven.push('the signer is the account that this payment pays')
  else failed.push(`the signer is not the account that this payment pays, which is ${to}`)
  if (!sameAddress(payload.payer, from))
    failed.push(`it names ${payload.payer} as payer; the authorization is of ${from}`)
}

/** The same for a call on a channel: its payment id is made of the channel and the call. */
function judgeCall(
  { payload }: SignedReceipt,
  { id, correlation_id: call, config }: NonNullable<Evidence['channel']>,
  signer: Hex,
  { proven, failed, unproven }: Lists,
): void {
  if (channelCallId(id, call) !== payload.paymentId) {
    failed.push(`it is about payment ${payload.paymentId}, not about call ${call} on channel ${id}`)
    return
  }
  proven.push(`it is about call ${call} on payment channel ${id}`)
  const asset = assetOf(payload.network)
  if (config === undefined || asset === undefined) {
    unproven.push('which accounts the channel is between: its terms are not at hand')
    return
  }
  if (channelId(config, asset.chainId) !== id.toLowerCase()) {
    failed.push(`the terms beside it are not those of channel ${id}`)
    return
  }
  const { payer, receiver } = config
  proven.push(`the channel pays from ${payer} to ${receiver} on ${payload.network}`)
  if (sameAddress(signer, receiver)) proven.push('the signer is the account that this channel pays')
  else failed.push(`the signer is not the account that this channel pays, which is ${receiver}`)
  if (!sameAddress(payload.payer, payer)) failed.push(`it names ${payload.payer} as payer; the channel is of ${payer}`)
  unproven.push('what the call cost: the seller states it with the result, and both ledgers have it')
}

function judgeContent(
  what: 'task' | 'result',
  signed: string,
  given: Uint8Array | undefined,
  { proven, failed, unproven }: Lists,
): void {
  if (given === undefined)
    unproven.push(`what the ${what} was: compare with --${what} <file> (SHA-256 ${signed.slice(2)})`)
  else if (contentHash(given) === signed) proven.push(`the ${what} is the one given, byte for byte`)
  else
    failed.push(
      `the ${what} given is another: its SHA-256 is ${contentHash(given).slice(2)}, signed is ${signed.slice(2)}`,
    )
}

function timeText(seconds: number): string {
  return new Date(seconds * 1000).toISOString()
}
