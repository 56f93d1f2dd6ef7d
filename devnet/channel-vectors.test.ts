import { type Hex, numberToHex } from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { channelCalls } from '../src/chain/batch-settlement.ts'
import { channelVectors, vectorConfig } from '../test/support/channel-vectors.ts'
import { accountOf, channelAbi, TestChannels } from '../test/support/test-channels.ts'
import { CHAIN_ID, type DevChain, startChain } from './chain.ts'
import { addresses } from './contracts.ts'

let chain: DevChain
let channels: TestChannels
beforeAll(async () => {
  chain = await startChain()
  channels = await new TestChannels(chain, accountOf(channelVectors.accounts.payer.privateKey)).start()
})
afterAll(() => chain.stop())

const read = (functionName: string, args: readonly unknown[] = []) =>
  chain.client.readContract({ address: addresses.batchSettlement, abi: channelAbi, functionName, args })

describe.each([84532, 31337])('the contract on chain %d', (chainId) => {
  const here = <T extends { chainId: number }>(vectors: T[]) => vectors.filter((vector) => vector.chainId === chainId)
  const setChainId = (id: number) => chain.client.request({ method: 'anvil_setChainId', params: [id] } as never)
  beforeAll(() => setChainId(chainId))
  afterAll(() => setChainId(CHAIN_ID))

  it.each(here(channelVectors.channels))('computes the id of channel $name', async ({ config, channelId }) => {
    expect(await read('getChannelId', [config])).toBe(channelId)
  })

  it.each(here(channelVectors.vouchers))('computes the digest of the voucher of channel $channel', async (vector) => {
    expect(await read('getVoucherDigest', [vector.channelId, BigInt(vector.maxClaimableAmount)])).toBe(vector.digest)
  })

  it.each(here(channelVectors.refunds))('computes the digest of refund $nonce', async ({ channelId, ...vector }) => {
    const args = [channelId, BigInt(vector.nonce), BigInt(vector.amount)]
    expect(await read('getRefundDigest', args)).toBe(vector.digest)
  })

  it.each(here(channelVectors.claimBatches))('computes the digest of a batch', async ({ entries, ...vector }) => {
    const claims = entries.map(({ maxClaimableAmount, totalClaimed }, index) => {
      const channel = vectorConfig(vector.channels[index]!, chainId)
      return { voucher: { channel, maxClaimableAmount }, signature: '0x', totalClaimed }
    })
    expect(await read('getClaimBatchDigest', [claims])).toBe(vector.digest)
  })

  it.each(here(channelVectors.emptyClaimBatch))('computes the digest of an empty batch', async ({ digest }) => {
    expect(await read('getClaimBatchDigest', [[]])).toBe(digest)
  })

  it('names its domain', async () => {
    const zero = numberToHex(0, { size: 32 })
    const fields = ['x402 Batch Settlement', '1', BigInt(chainId), addresses.batchSettlement, zero, []]
    expect(await read('eip712Domain')).toEqual(['0x0f', ...fields])
  })
})

describe('the contract', () => {
  it('has the types and bounds of the one on Base', async () => {
    const { typeHashes } = channelVectors
    const names = ['CHANNEL_CONFIG', 'VOUCHER', 'REFUND', 'CLAIM_ENTRY', 'CLAIM_BATCH']
    const hashes = await Promise.all(names.map((name) => read(`${name}_TYPEHASH`)))
    const { channel, voucher, refund, claimEntry, claimBatch } = typeHashes
    expect(hashes).toEqual([channel, voucher, refund, claimEntry, claimBatch])
    expect(await Promise.all([read('MIN_WITHDRAW_DELAY'), read('MAX_WITHDRAW_DELAY')])).toEqual([900, 2_592_000])
  })

  it('takes the deposit, the vouchers, the claims and the refund of the vectors', async () => {
    const { accounts, deposits, claimBatches, vouchers, refunds } = channelVectors
    const here = <T extends { chainId: number }>(vectors: T[]) => vectors.find(({ chainId }) => chainId === CHAIN_ID)!
    const [a, b, c] = ['A', 'B', 'C'].map((name) => vectorConfig(name, CHAIN_ID)) as [never, never, never]

    const deposit = here(deposits)
    const { validAfter, validBefore, salt, signature } = deposit
    const authorization = { validAfter: BigInt(validAfter), validBefore: BigInt(validBefore), salt, signature }
    await channels.send(channels.stranger, channelCalls.deposit(a, BigInt(deposit.amount), authorization))
    expect(await channels.state(a)).toMatchObject({ balance: 100_000n, totalClaimed: 0n })

    await channels.send(channels.stranger, channels.depositCall(c, 3_900n))
    const batch = here(claimBatches)
    const rows = batch.entries.map(({ maxClaimableAmount, totalClaimed }, index) => {
      const { config, voucher } = { config: [a, c][index]!, voucher: voucherOf(batch.channels[index]!) }
      const [max, total] = [BigInt(maxClaimableAmount), BigInt(totalClaimed)]
      return { config, maxClaimableAmount: max, signature: voucher.signature, totalClaimed: total }
    })
    await channels.send(channels.stranger, channelCalls.claimWithSignature(rows, batch.signature))
    expect(await channels.state(a)).toMatchObject({ balance: 100_000n, totalClaimed: 700n })
    expect(await channels.state(c)).toMatchObject({ balance: 3_900n, totalClaimed: 3_900n })

    await channels.send(channels.stranger, channels.depositCall(b, 123_456_789n))
    const byReceiver = accountOf(accounts.receiver.privateKey)
    await chain.fundGas(byReceiver.address)
    const voucher = voucherOf('B')
    const row = { config: b, maxClaimableAmount: 123_456_789n, signature: voucher.signature, totalClaimed: 46_913_578n }
    await channels.send(byReceiver, channelCalls.claim([row]))
    const [first, later] = refunds.filter(({ chainId }) => chainId === CHAIN_ID) as [Refund, Refund]
    const refundCall = ({ amount, nonce, signature }: Refund) =>
      channelCalls.refundWithSignature(b, { amount: BigInt(amount), nonce: BigInt(nonce), signature })
    await channels.send(channels.stranger, refundCall(first))
    expect(await channels.state(b)).toMatchObject({ balance: 46_913_578n, totalClaimed: 46_913_578n, refundNonce: 1n })
    expect(await channels.errorOf(channels.stranger, refundCall(later))).toBe('InvalidRefundNonce')

    function voucherOf(name: string): { signature: Hex } {
      return vouchers.find(({ channel, chainId }) => channel === name && chainId === CHAIN_ID)!
    }
  })
})

type Refund = (typeof channelVectors)['refunds'][number]
