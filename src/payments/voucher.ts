import type { ChannelConfig, SignedVoucher, Voucher } from '../schema/channel.ts'
import type { Hex } from '../schema/primitives.ts'
import { sameAddress } from './assets.ts'
import { recoverSigner, signDigest } from './authorization.ts'
import { channelId, voucherDigest } from './channel-digests.ts'
import { addressOfPublicKey } from './secp256k1.ts'

const NOBODY = '0x0000000000000000000000000000000000000000'

/** Signs a voucher with the key of the payer's side. @internal Exported for its test. */
export function signVoucher(voucher: Voucher, key: Uint8Array, chainId: number): SignedVoucher {
  return { ...voucher, signature: signDigest(voucherDigest(voucher, chainId), key) }
}

/**
 * The account whose key signs the vouchers of a channel. A payer that names an authorizer cannot sign itself.
 *
 * @internal Exported for its test.
 */
export function voucherSigner({ payer, payerAuthorizer }: Pick<ChannelConfig, 'payer' | 'payerAuthorizer'>): Hex {
  return (sameAddress(payerAuthorizer, NOBODY) ? payer : payerAuthorizer) as Hex
}

type VoucherVerdict = { ok: true; voucher: SignedVoucher } | { ok: false; reason: string }

/**
 * Judges a voucher offline, as the contract will: it must be of this channel and signed by the channel's voucher signer.
 * A payer with code that signs by EIP-1271 is refused, because only the chain can ask it. Use the returned voucher: its
 * signature has the one form that the contract takes.
 */
export function checkVoucher(config: ChannelConfig, voucher: SignedVoucher, chainId: number): VoucherVerdict {
  const id = channelId(config, chainId)
  if (voucher.channelId.toLowerCase() !== id) {
    return { ok: false, reason: `the voucher is of channel ${voucher.channelId}, the terms are those of ${id}` }
  }
  const recovered = recoverSigner(voucherDigest(voucher, chainId), voucher.signature)
  if (!recovered.ok) return { ok: false, reason: `the signature of the voucher is invalid: ${recovered.reason}` }
  const signer = addressOfPublicKey(recovered.publicKey)
  const expected = voucherSigner(config)
  if (!sameAddress(signer, expected)) {
    return { ok: false, reason: `the voucher is signed by ${signer}, this channel needs the signature of ${expected}` }
  }
  return { ok: true, voucher: { ...voucher, channelId: id, signature: recovered.signature } }
}
