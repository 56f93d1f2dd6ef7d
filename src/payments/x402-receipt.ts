import type { Hex } from '../schema/primitives.ts'
import { receiptResource, SignedX402Receipt, type X402Receipt } from '../schema/receipt.ts'
import { sameAddress } from './assets.ts'
import { recoverSigner, typedDigest } from './authorization.ts'
import { keccak256 } from './keccak.ts'
import { addressOfPublicKey } from './secp256k1.ts'
import { recurringTextHash, textHash } from './text-hash.ts'

const WORD_BYTES = 32

const TYPE = textHash(
  'Receipt(uint256 version,string network,string resourceUrl,string payer,uint256 issuedAt,string transaction)',
)

/** The EIP-712 domain of x402's offer-receipt extension. Always chain 1, because receipts never go to a chain. */
export const x402ReceiptDomain: Uint8Array = domain()

/** The digest of a receipt as x402's offer-receipt extension has it. */
export function x402ReceiptDigest(receipt: X402Receipt): Uint8Array {
  const words = Buffer.alloc(7 * WORD_BYTES)
  words.set(TYPE, 0)
  words[2 * WORD_BYTES - 1] = receipt.version
  words.set(recurringTextHash(receipt.network), 2 * WORD_BYTES)
  words.set(recurringTextHash(receipt.resourceUrl), 3 * WORD_BYTES)
  words.set(recurringTextHash(receipt.payer), 4 * WORD_BYTES)
  words.writeBigUInt64BE(BigInt(receipt.issuedAt), 6 * WORD_BYTES - 8)
  words.set(textHash(receipt.transaction), 6 * WORD_BYTES)
  return typedDigest(x402ReceiptDomain, words)
}

export function x402ReceiptSigner({ payload, signature }: SignedX402Receipt): Hex | undefined {
  const recovered = recoverSigner(x402ReceiptDigest(payload), signature)
  return recovered.ok ? addressOfPublicKey(recovered.publicKey) : undefined
}

type Delivered = {
  network: string
  agentId: string
  payer: string
  issuedAt: number
  txHash: Hex | ''
  /** Where it was bought, if not over libp2p. */
  resourceUrl?: string
}

/**
 * @param issuedAt Unix seconds: always those of the result, so that one payment never looks like two
 * @param txHash empty for a call on a channel, which has no transaction of its own
 */
export function x402ReceiptOf({ network, agentId, payer, issuedAt, txHash, resourceUrl }: Delivered): X402Receipt {
  return {
    version: 1,
    network: network as X402Receipt['network'],
    resourceUrl: resourceUrl ?? receiptResource(agentId),
    payer: payer as Hex,
    issuedAt,
    transaction: txHash.toLowerCase(),
  }
}

type Bought = Pick<Delivered, 'network' | 'agentId' | 'payer' | 'resourceUrl'> & {
  payTo: string
  isOnChannel?: boolean
}
type ReceivedX402Receipt = { ok: true; receipt: SignedX402Receipt } | { ok: false; reason: string }

/** Compares the x402 receipt that a seller sends with the purchase that it is about. Never throws. */
export function checkX402Receipt(sent: unknown, bought: Bought): ReceivedX402Receipt {
  const parsed = SignedX402Receipt.safeParse(sent)
  if (!parsed.success) return { ok: false, reason: 'it cannot be read as a receipt of x402' }
  const receipt = parsed.data
  const { network, resourceUrl, payer } = receipt.payload
  if (network !== bought.network) return { ok: false, reason: `it is about a payment on ${network}` }
  if (resourceUrl !== (bought.resourceUrl ?? receiptResource(bought.agentId)))
    return { ok: false, reason: 'it is about another agent' }
  if (!sameAddress(payer, bought.payer)) return { ok: false, reason: 'it names another payer' }
  if (receipt.payload.transaction === '' && bought.isOnChannel !== true) {
    return { ok: false, reason: 'it names no transaction' }
  }
  const signer = x402ReceiptSigner(receipt)
  if (signer === undefined) return { ok: false, reason: 'its signature is invalid' }
  if (!sameAddress(signer, bought.payTo)) {
    return { ok: false, reason: `it is signed by ${signer}, not by the account that is paid` }
  }
  return { ok: true, receipt }
}

function domain(): Uint8Array {
  const words = Buffer.alloc(4 * WORD_BYTES)
  words.set(textHash('EIP712Domain(string name,string version,uint256 chainId)'), 0)
  words.set(textHash('x402 receipt'), WORD_BYTES)
  words.set(textHash('1'), 2 * WORD_BYTES)
  words[4 * WORD_BYTES - 1] = 1
  return keccak256(words)
}
