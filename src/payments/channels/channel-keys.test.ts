import { verifyTypedData } from 'viem'
import { expect, test } from 'vitest'
import { voucherDigest } from '../channel-digests.ts'
import { createChannelSigner } from './channel-keys.ts'

const walletKey = Buffer.alloc(32, 7)

test('ADR-35 the keys beside the wallet are the same at each start, and differ by their use', () => {
  const vouchers = createChannelSigner(walletKey, 'vouchers')
  const claims = createChannelSigner(walletKey, 'claims')
  expect(createChannelSigner(walletKey, 'vouchers').address).toBe(vouchers.address)
  expect(new Set([vouchers.address, claims.address]).size).toBe(2)
  expect(createChannelSigner(Buffer.alloc(32, 8), 'vouchers').address).not.toBe(vouchers.address)
})

test('what such a key signs is the signature of its address, for a library too', async () => {
  const signer = createChannelSigner(walletKey, 'vouchers')
  const message = { channelId: `0x${'11'.repeat(32)}` as const, maxClaimableAmount: 1_000n }
  const isSigned = await verifyTypedData({
    address: signer.address,
    domain: {
      name: 'x402 Batch Settlement',
      version: '1',
      chainId: 31_337,
      verifyingContract: '0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003',
    },
    types: {
      Voucher: [
        { name: 'channelId', type: 'bytes32' },
        { name: 'maxClaimableAmount', type: 'uint128' },
      ],
    },
    primaryType: 'Voucher',
    message,
    signature: signer.sign(voucherDigest(message, 31_337)),
  })
  expect(isSigned).toBe(true)
})
