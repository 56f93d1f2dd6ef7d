/** 4.2: a buyer that has lost records, and goes on while its seller shows it what it had signed. */
import { expect, onTestFinished, test } from 'vitest'
import { payingChannelOf } from '../../../test/support/buyer-channels.ts'
import { randomHex, testWallet, usdc } from '../../../test/support/payments.ts'
import { channelId, voucherDigest } from '../../payments/channel-digests.ts'
import { createBuyerChannels, type StoredChannel } from '../../store/buyer-channels.ts'
import { openDatabase } from '../../store/database.ts'
import { ChannelLine } from './channel-line.ts'

const signer = testWallet().channelSigner('vouchers')

async function lineOf(mark: bigint, changes: Partial<StoredChannel> = {}) {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  const store = createBuyerChannels(database)
  const { config: made, ...plain } = payingChannelOf({ mark, ...changes })
  const config = { ...made, payerAuthorizer: signer.address }
  const channel = { ...plain, config, id: channelId(config, usdc.chainId) }
  await store.putDeposit(channel, () => true)
  const { chainId } = usdc
  let meanwhile = () => {}
  const raiseMark: typeof store.raiseMark = (...raised) => {
    const stored = store.raiseMark(...raised)
    meanwhile()
    return stored
  }
  const stopped = (_: ChannelLine, why: string) => expect.fail(why)
  const deps = { store: { ...store, raiseMark }, signer, chainId, stopped }
  const line = new ChannelLine({ ...channel, inFlight: new Map() }, deps)
  const signed = (maxClaimableAmount: bigint) => {
    const voucher = { channelId: channel.id, maxClaimableAmount }
    return { ...voucher, signature: signer.sign(voucherDigest(voucher, chainId)) }
  }
  return {
    ...{ line, signed, stored: async () => (await store.get(channel.id))! },
    /** While a mark is on its way to the disk. */
    onRaise(then: () => void) {
      meanwhile = then
    },
  }
}

test('what is signed while a statement of the seller is taken over stays below the mark on disk', async () => {
  const { line, stored, signed, onRaise } = await lineOf(10_000n)
  const statement = { reason: 'voucher', counted: { total: 15_000n, seq: 3 }, voucher: signed(20_000n) } as const
  let adopted: Promise<boolean> | undefined
  onRaise(() => {
    adopted ??= line.adopt(statement)
  })
  const payment = await line.pay({ id: randomHex(), asked: 30_000n, ahead: 0n, reserve: async () => {} })
  expect(await adopted).toBe(true)
  const { mark, charged, seq } = await stored()
  expect(mark).toBeGreaterThanOrEqual(payment.voucher.maxClaimableAmount)
  expect(mark).toBe(line.channel.mark)
  expect([charged, seq]).toEqual([15_000n, 3])
  expect(line.channel).toMatchObject({ charged, seq, statedSeq: 3 })
})

test('what a voucher above the mark proves is the mark on disk too: a restart believes the seller once', async () => {
  const { line, stored, signed } = await lineOf(10_000n)
  const statement = { reason: 'voucher', counted: { total: 15_000n, seq: 3 }, voucher: signed(20_000n) } as const
  expect(await line.adopt(statement)).toBe(true)
  expect([line.channel.mark, (await stored()).mark]).toEqual([20_000n, 20_000n])
})

test('a statement below what is signed by now proves nothing', async () => {
  const { line, stored, signed } = await lineOf(10_000n)
  await line.pay({ id: randomHex(), asked: 30_000n, ahead: 0n, reserve: async () => {} })
  const statement = { reason: 'voucher', counted: { total: 15_000n, seq: 3 }, voucher: signed(20_000n) } as const
  expect(await line.adopt(statement)).toBe(false)
  expect(await stored()).toMatchObject({ mark: 30_000n, charged: 0n })
})

test('T15: a request about the money of a channel that has stopped signs for nothing, whatever the RPC says was claimed', async () => {
  const onChain = { balance: 100_000n, totalClaimed: 99_999n, withdrawal: undefined, refundNonce: 0n }
  const { line } = await lineOf(100_000n, { onChain, charged: 99_999n, stopped: 'this ledger does not know it' })
  expect(line.forFunds().voucher.maxClaimableAmount).toBe(1n)
  const open = await lineOf(100_000n, { charged: 30_000n })
  expect(open.line.forFunds().voucher.maxClaimableAmount).toBe(30_000n)
})
