import { recoverAddress } from 'viem'
import { expect, test } from 'vitest'
import { type ChannelVectors, channelVectors, vectorConfig } from '../../test/support/channel-vectors.ts'
import { highS } from '../../test/support/signed-payment.ts'
import type { SignedVoucher } from '../schema/channel.ts'
import type { Hex } from '../schema/primitives.ts'
import { checkVoucher, signVoucher, voucherSigner } from './voucher.ts'

const { accounts, vouchers } = channelVectors
const keyOf = (name: keyof ChannelVectors['accounts']) => Buffer.from(accounts[name].privateKey.slice(2), 'hex')
const voucherOf = ({
  channelId,
  maxClaimableAmount,
  signature,
}: ChannelVectors['vouchers'][number]): SignedVoucher => ({
  channelId,
  maxClaimableAmount: BigInt(maxClaimableAmount),
  signature,
})
const first = vouchers[0]!
const config = vectorConfig(first.channel, first.chainId)
const refused = (reason: RegExp) => ({ ok: false, reason: expect.stringMatching(reason) })
const withV = (signature: Hex, v: number) => `${signature.slice(0, -2)}${v.toString(16).padStart(2, '0')}` as Hex

test.each(vouchers)(
  'the voucher of channel $channel on chain $chainId is signed as the vectors say',
  async (vector) => {
    const { signature: _, ...voucher } = voucherOf(vector)
    expect(signVoucher(voucher, keyOf(vector.signer), vector.chainId)).toEqual(voucherOf(vector))
    const signer = await recoverAddress({ hash: vector.digest, signature: vector.signature })
    expect(voucherSigner(vectorConfig(vector.channel, vector.chainId))).toBe(signer)
  },
)

test.each(vouchers)(
  'hazard 4.13: the voucher of channel $channel on chain $chainId is good there, and on no other chain',
  (vector) => {
    const terms = vectorConfig(vector.channel, vector.chainId)
    expect(checkVoucher(terms, voucherOf(vector), vector.chainId)).toEqual({ ok: true, voucher: voucherOf(vector) })
    for (const { chainId } of vouchers.filter(({ chainId }) => chainId !== vector.chainId)) {
      expect(checkVoucher(terms, voucherOf(vector), chainId)).toEqual(refused(/is of channel/))
    }
  },
)

test('a voucher of another channel is refused, whatever its signature', () => {
  const other = vouchers.find(({ channel, chainId }) => channel !== first.channel && chainId === first.chainId)!
  expect(checkVoucher(config, voucherOf(other), first.chainId)).toEqual(refused(/is of channel/))
})

test('a voucher for another amount is signed by nobody of this channel', () => {
  const more = { ...voucherOf(first), maxClaimableAmount: 1001n }
  expect(checkVoucher(config, more, first.chainId)).toEqual(refused(/is signed by 0x/))
})

test('hazard 4.22: where an authorizer signs, the payer cannot', () => {
  const vector = vouchers.find(({ channel }) => channel === 'B')!
  const { signature: _, ...voucher } = voucherOf(vector)
  const byPayer = signVoucher(voucher, keyOf('payer'), vector.chainId)
  const verdict = checkVoucher(vectorConfig('B', vector.chainId), byPayer, vector.chainId)
  expect(verdict).toEqual(refused(/needs the signature of 0x75E0De31/))
})

test('the zero address names the payer, in any spelling', () => {
  const zero = `0x${'0'.repeat(40)}` as Hex
  expect(voucherSigner({ ...config, payerAuthorizer: zero })).toBe(config.payer)
})

test('a voucher is returned in the form that the contract takes, or refused', () => {
  const voucher = voucherOf(first)
  const v = Number.parseInt(voucher.signature.slice(-2), 16)
  const shouted = { ...voucher, channelId: `0x${voucher.channelId.slice(2).toUpperCase()}` as Hex }
  const small = { ...voucher, signature: withV(voucher.signature, v - 27) }
  for (const odd of [shouted, small]) expect(checkVoucher(config, odd, first.chainId)).toEqual({ ok: true, voucher })
  const high = { ...voucher, signature: highS(voucher.signature) }
  expect(checkVoucher(config, high, first.chainId)).toEqual(refused(/upper half/))
  const strange = { ...voucher, signature: withV(voucher.signature, 29) }
  expect(checkVoucher(config, strange, first.chainId)).toEqual(refused(/v of the signature/))
})
