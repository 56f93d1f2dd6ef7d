import type { UnixMs } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { PaymentEnvelope, PaymentRequirements } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Receipt, SignedReceipt, SignedX402Receipt, X402Receipt } from '../schema/receipt.ts'
import type { SignedX402Offer, X402Offer } from '../schema/x402-http.ts'
import { type Asset, sameAddress } from './assets.ts'
import { authorizationDigest, paymentIdOf, signDigest } from './authorization.ts'
import { type Deposit, depositDigest } from './channel-digests.ts'
import { type ChannelKeyUse, type ChannelSigner, createChannelSigner } from './channels/channel-keys.ts'
import { keccak256 } from './keccak.ts'
import { type ReceiptRoot, receiptRootDigest } from './merkle-receipt.ts'
import { receiptDigest } from './receipt.ts'
import { addressOfPublicKey, secp256k1 } from './secp256k1.ts'
import { type SignedTransaction, signTransaction, type Transaction } from './transaction.ts'
import { x402OfferDigest } from './x402-offer.ts'
import { x402ReceiptDigest } from './x402-receipt.ts'

/** The most of a window that lies in the past: the chain's clock lags and its rule is strict (D28). */
const BACKDATE_SECONDS_MAX = 60

/** The hash of plain text, so it never equals the digest of a transaction, payment or permit. */
const PROBE = keccak256(Buffer.from('Stoa: does the code of this account take a signature of its key?'))

export class WalletError extends CodedError<'WALLET_KEY_INVALID' | 'ASSET_UNKNOWN'> {
  override name = 'WalletError'
}

export type SignedPayment = { paymentId: Hex; envelope: PaymentEnvelope }

/** The account that this node pays from and is paid to. The key stays inside. */
export interface Wallet {
  readonly address: Hex
  /** The only asset and network of this wallet (D37). */
  readonly asset: Asset
  /**
   * Signs an authorization for exactly these requirements. budget.ts decides before whether to sign. `serverNonce` is
   * the challenge nonce, also the nonce of the authorization (D30), or `preemptive` with a fresh nonce.
   * `windowSeconds`: how long the authorization is valid; default `maxTimeoutSeconds`.
   */
  authorize(
    requirements: PaymentRequirements,
    terms: { serverNonce: Hex | 'preemptive'; authorizationNonce: Hex; windowSeconds?: number },
    now: UnixMs,
  ): SignedPayment
  /** Signs a deposit into a payment channel: only this channel can get the money. */
  signDeposit(deposit: Omit<Deposit, 'payer'>): Hex
  signReceipt(receipt: Receipt): SignedReceipt
  /** Signs the root of the receipts of one turn. */
  signReceiptRoot(root: ReceiptRoot): Hex
  signX402Receipt(receipt: X402Receipt): SignedX402Receipt
  signX402Offer(offer: X402Offer): SignedX402Offer
  /** Signs a fixed text without meaning. It shows whether the account's code accepts signatures of its key. */
  signProbe(): { digest: Hex; signature: Hex }
  signTransaction(transaction: Transaction): SignedTransaction
  /** A key made from that of the wallet, for payment channels. */
  channelSigner(use: ChannelKeyUse): ChannelSigner
}

/** @throws WalletError `WALLET_KEY_INVALID` for a key outside the curve; its message never holds the key */
export function createWallet(privateKey: Hex, asset: Asset): Wallet {
  const key = Buffer.from(privateKey.slice(2), 'hex')
  const address = addressOf(key)
  const channelSigners: Partial<Record<ChannelKeyUse, ChannelSigner>> = {}
  return {
    address,
    asset,
    authorize(requirements, { serverNonce, authorizationNonce, windowSeconds }, now) {
      if (requirements.network !== asset.network || !sameAddress(asset.address, requirements.asset)) {
        const asked = `no payment in ${requirements.asset} on ${requirements.network}`
        throw new WalletError('ASSET_UNKNOWN', `${asked}: not ${asset.symbol} on ${asset.network}`)
      }
      const window = Math.min(requirements.maxTimeoutSeconds, windowSeconds ?? Number.POSITIVE_INFINITY)
      const start = Math.floor(now / 1000) - backdatedSeconds(window)
      const authorization = {
        from: address,
        to: requirements.payTo,
        value: requirements.amount,
        validAfter: BigInt(start),
        validBefore: BigInt(start + window),
        nonce: authorizationNonce,
      }
      const digest = authorizationDigest(asset, authorization)
      const signature = signDigest(digest, key)
      return {
        paymentId: paymentIdOf(digest),
        envelope: {
          x402_version: 2,
          scheme: requirements.scheme,
          network: requirements.network,
          server_nonce: serverNonce,
          payer: address,
          payload: { signature, authorization },
        },
      }
    },
    signProbe: () => ({ digest: `0x${Buffer.from(PROBE).toString('hex')}`, signature: signDigest(PROBE, key) }),
    signDeposit: (deposit) => signDigest(depositDigest({ ...deposit, payer: address }, asset), key),
    // Doors ask for its address with each request, and to derive it takes ten times the CPU of the rest of an answer.
    channelSigner: (use) => (channelSigners[use] ??= createChannelSigner(key, use)),
    signTransaction: (transaction) => signTransaction(transaction, key),
    signReceipt: (payload) => ({ format: 'eip712', payload, signature: signDigest(receiptDigest(payload), key) }),
    signReceiptRoot: (root) => signDigest(receiptRootDigest(root), key),
    signX402Receipt: (payload) => ({
      format: 'eip712',
      payload,
      signature: signDigest(x402ReceiptDigest(payload), key),
    }),
    signX402Offer: (payload) => ({ format: 'eip712', payload, signature: signDigest(x402OfferDigest(payload), key) }),
  }
}

/** How much of a window lies in the past at signing (D28). */
export function backdatedSeconds(windowSeconds: number): number {
  return Math.min(BACKDATE_SECONDS_MAX, Math.floor(windowSeconds / 4))
}

/** The address of a wallet key, for callers that sign nothing. @throws WalletError `WALLET_KEY_INVALID` */
export function walletAddress(privateKey: Hex): Hex {
  return addressOf(Buffer.from(privateKey.slice(2), 'hex'))
}

function addressOf(key: Uint8Array): Hex {
  try {
    return addressOfPublicKey(secp256k1.publicKey(key))
  } catch {
    throw new WalletError(
      'WALLET_KEY_INVALID',
      'the wallet key must be 32 bytes of hex, not zero, below the curve order',
    )
  }
}
