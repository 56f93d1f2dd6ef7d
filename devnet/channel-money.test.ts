import { encodeFunctionData, type Hex, maxUint128, zeroAddress } from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { channelCalls } from '../src/chain/batch-settlement.ts'
import { signDigest } from '../src/payments/authorization.ts'
import { refundDigest } from '../src/payments/channel-digests.ts'
import type { ChannelConfig } from '../src/schema/channel.ts'
import { accountOf, type TestAccount, TestChannels } from '../test/support/test-channels.ts'
import { CHAIN_ID, type DevChain, startChain, usdcAbi } from './chain.ts'
import { addresses } from './contracts.ts'

let chain: DevChain
let channels: TestChannels
let payer: TestAccount
let receiver: TestAccount
let authorizer: TestAccount
let stranger: TestAccount

beforeAll(async () => {
  chain = await startChain()
  channels = await new TestChannels(chain).start()
  ;({ payer, receiver, authorizer, stranger } = channels)
})
afterAll(() => chain.stop())

/** What the accounts gain by a step, in atomic units. */
async function gains(step: () => Promise<unknown>): Promise<Record<'payer' | 'receiver' | 'contract', bigint>> {
  const accounts = [payer.address, receiver.address, addresses.batchSettlement] as const
  const before = await Promise.all(accounts.map(chain.balanceOf))
  await step()
  const after = await Promise.all(accounts.map(chain.balanceOf))
  const [ofPayer, ofReceiver, ofContract] = after.map((balance, index) => balance - before[index]!) as [
    bigint,
    bigint,
    bigint,
  ]
  return { payer: ofPayer, receiver: ofReceiver, contract: ofContract }
}

const claimOf = (config: ChannelConfig, total: bigint, max = total) =>
  channelCalls.claim([channels.row(config, total, { max })])
const amountsOf = async (config: ChannelConfig) => {
  const { balance, totalClaimed } = await channels.state(config)
  return [balance, totalClaimed]
}

describe('a deposit', () => {
  it('makes the channel, and a later one tops it up, whoever sends them', async () => {
    const config = channels.config()
    const channelId = channels.id(config)
    const moved = await gains(async () => {
      expect(await channels.send(stranger, channels.depositCall(config, 700n))).toEqual([
        ['ChannelCreated', { channelId, config }],
        ['Deposited', { channelId, amount: 700n, newBalance: 700n }],
      ])
      expect(await channels.send(receiver, channels.depositCall(config, 50n))).toEqual([
        ['Deposited', { channelId, amount: 50n, newBalance: 750n }],
      ])
    })
    expect(moved).toEqual({ payer: -750n, receiver: 0n, contract: 750n })
    expect(await channels.state(config)).toEqual({
      ...{ balance: 750n, totalClaimed: 0n, withdrawal: undefined, refundNonce: 0n },
    })
  })
})

describe('a claim', () => {
  it('records totals without moving money; settling moves it once, whoever asks', async () => {
    const config = await channels.open(1_000n)
    const channelId = channels.id(config)
    const claimed = await gains(async () => {
      expect(await channels.send(receiver, claimOf(config, 300n, 900n))).toEqual([
        ['Claimed', { channelId, claimAmount: 300n, newTotalClaimed: 300n }],
      ])
      expect(await channels.send(authorizer, claimOf(config, 900n))).toEqual([
        ['Claimed', { channelId, claimAmount: 600n, newTotalClaimed: 900n }],
      ])
    })
    expect(claimed).toEqual({ payer: 0n, receiver: 0n, contract: 0n })
    const settle = channelCalls.settle(receiver.address, addresses.usdc)
    const settled = await gains(async () => {
      expect(await channels.send(stranger, settle)).toEqual([
        ['Settled', { receiver: receiver.address, token: addresses.usdc, amount: 900n }],
      ])
      expect(await channels.send(stranger, settle)).toEqual([])
    })
    expect(settled).toEqual({ payer: 0n, receiver: 900n, contract: -900n })
    const sums = await channels.reader.receiver(receiver.address, addresses.usdc)
    expect(sums).toEqual({ totalClaimed: 900n, totalSettled: 900n })
  })

  it('of a total that is recorded is skipped, and its signature is not read', async () => {
    const config = await channels.open(100n)
    await channels.send(receiver, claimOf(config, 60n))
    const rows = [60n, 59n, 0n].map((total) => ({ ...channels.row(config, total), signature: '0x' as Hex }))
    expect(await channels.send(receiver, channelCalls.claim(rows))).toEqual([])
    expect(await amountsOf(config)).toEqual([100n, 60n])
  })

  it('of many channels of several payers is one transaction, and is settled in one transfer', async () => {
    const other = await new TestChannels(chain).start()
    const terms = { receiver: receiver.address, receiverAuthorizer: authorizer.address }
    const [ours, theirs] = [[] as ChannelConfig[], [] as ChannelConfig[]]
    for (let index = 0; index < 30; index++) ours.push(await channels.open(100n))
    for (let index = 0; index < 10; index++) theirs.push(await other.open(100n, terms))
    const rows = [
      ...ours.map((config, index) => channels.row(config, BigInt(index + 1), { max: 100n })),
      ...theirs.map((config) => other.row(config, 100n)),
    ]
    const { totalClaimed, totalSettled } = await channels.reader.receiver(receiver.address, addresses.usdc)
    const unsettled = totalClaimed - totalSettled
    const moved = await gains(async () => {
      const events = await channels.send(stranger, channels.signedClaim(rows))
      expect(events.map(([name]) => name)).toEqual(rows.map(() => 'Claimed'))
      await channels.send(stranger, channelCalls.settle(receiver.address, addresses.usdc))
    })
    expect(moved.receiver).toBe(unsettled + 465n + 1_000n)
    const states = await channels.reader.channels([...ours, ...theirs].map((config) => channels.id(config)))
    expect(states.map(({ totalClaimed }) => totalClaimed)).toEqual(rows.map(({ totalClaimed }) => totalClaimed))
  })

  it('with one row that fails records none', async () => {
    const [good, bad] = [await channels.open(10n), await channels.open(10n)]
    const rows = [channels.row(good, 5n), channels.row(bad, 11n)]
    expect(await channels.errorOf(stranger, channels.signedClaim(rows))).toBe('ClaimExceedsBalance')
    expect(await amountsOf(good)).toEqual([10n, 0n])
  })

  it('reaches the very balance', async () => {
    const config = await channels.open(10n)
    await channels.send(receiver, claimOf(config, 10n, maxUint128))
    expect(await amountsOf(config)).toEqual([10n, 10n])
    expect(await channels.errorOf(receiver, claimOf(config, 11n, maxUint128))).toBe('ClaimExceedsBalance')
  })
})

describe('a refund', () => {
  it('pays the payer what is not claimed, at most, and closes only a channel without claims', async () => {
    const [unused, used] = [await channels.open(500n), await channels.open(500n)]
    await channels.send(receiver, claimOf(used, 200n))
    const moved = await gains(async () => {
      expect(await channels.send(receiver, channelCalls.refund(unused, maxUint128))).toEqual([
        ['Refunded', { channelId: channels.id(unused), amount: 500n }],
        ['ChannelClosed', { channelId: channels.id(unused), config: unused }],
      ])
      expect(await channels.send(authorizer, channelCalls.refund(used, 301n))).toEqual([
        ['Refunded', { channelId: channels.id(used), amount: 300n }],
      ])
    })
    expect(moved).toEqual({ payer: 800n, receiver: 0n, contract: -800n })
  })

  it('that finds nothing to pay uses a nonce all the same', async () => {
    const config = channels.config()
    expect(await channels.send(receiver, channelCalls.refund(config, 1n))).toEqual([])
    expect(await channels.state(config)).toMatchObject({ balance: 0n, refundNonce: 1n })
  })

  it('by a signature holds for its nonce alone, which a direct one uses up', async () => {
    const config = await channels.open(100n)
    const stale = channels.signedRefund(config, 10n, 0n)
    await channels.send(receiver, channelCalls.refund(config, 1n))
    expect(await channels.errorOf(stranger, stale)).toBe('InvalidRefundNonce')
    const fresh = channels.signedRefund(config, 10n, 1n)
    await channels.send(stranger, fresh)
    expect(await channels.errorOf(stranger, fresh)).toBe('InvalidRefundNonce')
    expect(await channels.state(config)).toMatchObject({ balance: 89n, refundNonce: 2n })
  })

  it('lowers a pending withdrawal, or ends it', async () => {
    const config = await channels.open(100n)
    await channels.send(payer, channelCalls.initiateWithdraw(config, 60n))
    const { withdrawal } = await channels.state(config)
    await channels.send(receiver, channelCalls.refund(config, 20n))
    expect(await channels.state(config)).toMatchObject({ balance: 80n, withdrawal: { ...withdrawal, amount: 40n } })
    await channels.send(receiver, channelCalls.refund(config, 40n))
    expect(await channels.state(config)).toMatchObject({ balance: 40n, withdrawal: undefined })
  })
})

describe('the signature of a payer with code', () => {
  it('is judged by the code, in a deposit and in a claim', async () => {
    const wallet = accountOf().address
    await chain.deploySmartWallet(payer.address, wallet)
    await chain.mint(wallet, 1_000n)
    const config = channels.config({ payer: wallet, payerAuthorizer: zeroAddress, receiverAuthorizer: wallet })
    const prefixed = (signature: Hex) => `0x00${signature.slice(2)}` as Hex
    const { authorization } = channels.signedDeposit(config, 1_000n)
    const deposit = channelCalls.deposit(config, 1_000n, {
      ...authorization,
      signature: prefixed(authorization.signature),
    })
    await channels.send(stranger, deposit)
    const row = channels.row(config, 400n, { signer: payer })
    expect(await channels.errorOf(receiver, channelCalls.claim([row]))).toBe('InvalidSignature')
    await channels.send(receiver, channelCalls.claim([{ ...row, signature: prefixed(row.signature) }]))
    expect(await amountsOf(config)).toEqual([1_000n, 400n])
    // Its authorizer is the same contract: so a receiver can change its key without new channels.
    expect(await channels.errorOf(stranger, channels.signedRefund(config, 600n, 0n, payer))).toBe('InvalidSignature')
    const digest = refundDigest({ channelId: channels.id(config), nonce: 0n, amount: 600n }, CHAIN_ID)
    const signature = prefixed(signDigest(digest, payer.key))
    await channels.send(stranger, channelCalls.refundWithSignature(config, { amount: 600n, nonce: 0n, signature }))
    expect(await chain.balanceOf(wallet)).toBe(600n)
  })
})

describe('several calls in one', () => {
  it('claim and refund together, or not at all', async () => {
    const config = await channels.open(100n)
    const claim = channels.signedClaim([channels.row(config, 30n)])
    const both = (nonce: bigint) => channelCalls.multicall([claim, channels.signedRefund(config, 100n, nonce)])
    expect(await channels.errorOf(stranger, both(1n))).toBe('InvalidRefundNonce')
    expect(await amountsOf(config)).toEqual([100n, 0n])
    const moved = await gains(() => channels.send(stranger, both(0n)))
    expect(moved).toEqual({ payer: 70n, receiver: 0n, contract: -70n })
    expect(await amountsOf(config)).toEqual([30n, 30n])
  })

  it('refund and deposit together', async () => {
    const config = await channels.open(100n)
    const calls = [channels.signedRefund(config, 100n, 0n), channels.depositCall(config, 40n)]
    const events = await channels.send(stranger, channelCalls.multicall(calls))
    expect(events.map(([name]) => name)).toEqual(['Refunded', 'ChannelClosed', 'ChannelCreated', 'Deposited'])
    expect(await amountsOf(config)).toEqual([40n, 0n])
  })

  it('keep who asks: a stranger cannot claim', async () => {
    const config = await channels.open(100n)
    expect(await channels.errorOf(stranger, channelCalls.multicall([claimOf(config, 1n)]))).toBe('NotAuthorizedToClaim')
    await channels.send(receiver, channelCalls.multicall([claimOf(config, 1n)]))
  })

  it('refuse what the contract does not have', async () => {
    const data = channelCalls.multicall([
      encodeFunctionData({ abi: usdcAbi, functionName: 'transfer', args: [payer.address, 1n] }),
    ])
    expect(await channels.errorOf(stranger, data)).toBe('FailedCall')
  })
})
