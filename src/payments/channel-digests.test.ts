import fc from 'fast-check'
import { encodeAbiParameters, hashStruct, hashTypedData, keccak256, parseAbiParameters } from 'viem'
import { expect, test } from 'vitest'
import { type ChannelVectors, channelVectors, vectorConfig } from '../../test/support/channel-vectors.ts'
import type { Hex } from '../schema/primitives.ts'
import { assets } from './assets.ts'
import { domainSeparator } from './authorization.ts'
import {
  channelDomain,
  channelId,
  claimBatchDigest,
  depositDigest,
  depositNonce,
  refundDigest,
  voucherDigest,
} from './channel-digests.ts'

const hex = (bytes: Uint8Array) => `0x${Buffer.from(bytes).toString('hex')}` as Hex
const usdc = assets['eip155:84532']

test.each(Object.entries(channelVectors.domainSeparators))(
  'the domain of the contract on chain %s',
  (id, separator) => {
    expect(hex(domainSeparator(channelDomain(Number(id))))).toBe(separator)
  },
)

test.each(channelVectors.channels)('channel $name on chain $chainId has the id of the vectors', (vector) => {
  expect(channelId(vector.config, vector.chainId)).toBe(vector.channelId)
})

test.each(channelVectors.vouchers)('the voucher of channel $channel on chain $chainId', (vector) => {
  const voucher = { channelId: vector.channelId, maxClaimableAmount: BigInt(vector.maxClaimableAmount) }
  expect(hex(voucherDigest(voucher, vector.chainId))).toBe(vector.digest)
})

test.each(channelVectors.refunds)('refund $nonce of channel $channel on chain $chainId', (vector) => {
  const { chainId, channelId, digest } = vector
  const refund = { channelId, nonce: BigInt(vector.nonce), amount: BigInt(vector.amount) }
  expect(hex(refundDigest(refund, chainId))).toBe(digest)
})

const entriesOf = ({ entries }: ChannelVectors['claimBatches'][number]) =>
  entries.map(({ channelId, maxClaimableAmount, totalClaimed }) => ({
    channelId,
    maxClaimableAmount: BigInt(maxClaimableAmount),
    totalClaimed: BigInt(totalClaimed),
  }))

test.each(channelVectors.claimBatches)('the batch of claims on chain $chainId, whose order counts', (vector) => {
  const entries = entriesOf(vector)
  expect(hex(claimBatchDigest(entries, vector.chainId))).toBe(vector.digest)
  expect(hex(claimBatchDigest(entries.toReversed(), vector.chainId))).not.toBe(vector.digest)
})

test.each(channelVectors.emptyClaimBatch)('an empty batch of claims on chain $chainId', ({ chainId, digest }) => {
  expect(hex(claimBatchDigest([], chainId))).toBe(digest)
})

test.each(channelVectors.deposits)('a deposit into channel $channel on chain $chainId', (vector) => {
  const { channelId, amount, validAfter, validBefore, salt } = vector
  const deposit = {
    ...{ channelId, salt, payer: vectorConfig(vector.channel, vector.chainId).payer as Hex },
    ...{ amount: BigInt(amount), validAfter: BigInt(validAfter), validBefore: BigInt(validBefore) },
  }
  expect(depositNonce(deposit)).toBe(vector.nonce)
  expect(hex(depositDigest(deposit, { ...usdc, chainId: vector.chainId }))).toBe(vector.digest)
})

const bytes = (length: number) =>
  fc.uint8Array({ minLength: length, maxLength: length }).map((raw) => `0x${Buffer.from(raw).toString('hex')}` as Hex)
const uint = (bits: number) => fc.bigInt({ min: 0n, max: 2n ** BigInt(bits) - 1n })
const configs = fc.record({
  payer: bytes(20),
  payerAuthorizer: bytes(20),
  receiver: bytes(20),
  receiverAuthorizer: bytes(20),
  token: bytes(20),
  withdrawDelay: fc.integer({ min: 900, max: 2_592_000 }),
  salt: bytes(32),
})
const field = (name: string, type: string) => ({ name, type })
const claimEntry = [
  field('channelId', 'bytes32'),
  field('maxClaimableAmount', 'uint128'),
  field('totalClaimed', 'uint128'),
]
const types = {
  ChannelConfig: [
    ...['payer', 'payerAuthorizer', 'receiver', 'receiverAuthorizer', 'token'].map((name) => field(name, 'address')),
    field('withdrawDelay', 'uint40'),
    field('salt', 'bytes32'),
  ],
  Voucher: [field('channelId', 'bytes32'), field('maxClaimableAmount', 'uint128')],
  Refund: [field('channelId', 'bytes32'), field('nonce', 'uint256'), field('amount', 'uint128')],
  ClaimBatch: [field('claims', 'ClaimEntry[]')],
  ClaimEntry: claimEntry,
}

/** What viem computes for the same message. */
function theirs(primaryType: string, message: object, chainId: number): Hex {
  const { name, version, address } = channelDomain(chainId)
  const domain = { name, version, chainId, verifyingContract: address as Hex }
  return hashTypedData({ domain, types, primaryType, message } as never)
}

test('ids and digests of any channel are those that viem computes', () => {
  const entry = fc.record({ channelId: bytes(32), maxClaimableAmount: uint(128), totalClaimed: uint(128) })
  const refunds = fc.record({ channelId: bytes(32), nonce: uint(256), amount: uint(128) })
  const claims = fc.array(entry, { maxLength: 5 })
  fc.assert(
    fc.property(fc.constantFrom(84532, 8453), configs, claims, refunds, (chainId, config, entries, refund) => {
      expect(channelId(config, chainId)).toBe(theirs('ChannelConfig', config, chainId))
      expect(hex(claimBatchDigest(entries, chainId))).toBe(theirs('ClaimBatch', { claims: entries }, chainId))
      expect(hex(refundDigest(refund, chainId))).toBe(theirs('Refund', refund, chainId))
      for (const voucher of entries)
        expect(hex(voucherDigest(voucher, chainId))).toBe(theirs('Voucher', voucher, chainId))
    }),
    { numRuns: 200 },
  )
})

test('a channel id is the whole digest, not the hash of the terms alone', () => {
  const [vector] = channelVectors.channels
  const struct = hashStruct({ types, primaryType: 'ChannelConfig', data: vector!.config as never })
  expect(struct).toBe(vector!.structHash)
  expect(channelId(vector!.config, vector!.chainId)).not.toBe(struct)
})

test('the nonce of a deposit is that of another channel for the same salt', () => {
  const [first, second] = channelVectors.deposits
  const encoded = encodeAbiParameters(parseAbiParameters('bytes32, uint256'), [first!.channelId, BigInt(first!.salt)])
  expect(depositNonce(first!)).toBe(keccak256(encoded))
  expect(second!.salt).toBe(first!.salt)
  expect(depositNonce(second!)).not.toBe(depositNonce(first!))
})
