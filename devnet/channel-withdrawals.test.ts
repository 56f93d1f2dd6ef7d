import { type Abi, encodeAbiParameters, encodeFunctionData, type Hex, maxUint128, parseAbiParameters } from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { channelCalls } from '../src/chain/batch-settlement.ts'
import type { ChannelConfig } from '../src/schema/channel.ts'
import { accountOf, channelAbi, TestChannels } from '../test/support/test-channels.ts'
import { type DevChain, startChain } from './chain.ts'
import { readArtifact } from './contracts.ts'

const { contracts } = readArtifact()

let chain: DevChain
let channels: TestChannels
beforeAll(async () => {
  chain = await startChain()
  channels = await new TestChannels(chain).start()
})
afterAll(() => chain.stop())

const claim = (config: ChannelConfig, total: bigint, max = total) =>
  channels.send(channels.receiver, channelCalls.claim([channels.row(config, total, { max })]))
const initiate = (config: ChannelConfig, amount: bigint) =>
  channels.send(channels.payer, channelCalls.initiateWithdraw(config, amount))
const finalize = (config: ChannelConfig) => channels.send(channels.payer, channelCalls.finalizeWithdraw(config))

/** Starts a withdrawal and lets its delay pass. */
async function leave(config: ChannelConfig, amount: bigint): Promise<void> {
  await initiate(config, amount)
  await channels.wait(config.withdrawDelay)
}

describe('a withdrawal', () => {
  it('ends in the second in which its delay ends, and pays the payer, whose session key may ask too', async () => {
    const config = await channels.open(1_000n)
    const channelId = channels.id(config)
    const started = await channels.send(channels.session, channelCalls.initiateWithdraw(config, 400n))
    const { timestamp } = await chain.client.getBlock()
    expect(started).toEqual([
      ['WithdrawInitiated', { channelId, amount: 400n, finalizeAfter: Number(timestamp) + 900 }],
    ])
    expect((await channels.state(config)).withdrawal).toEqual({ amount: 400n, initiatedAt: Number(timestamp) })

    const end = channelCalls.finalizeWithdraw(config)
    const mineAt = async (time: bigint) => {
      await chain.client.setNextBlockTimestamp({ timestamp: time })
      await chain.mine()
    }
    await mineAt(timestamp + 899n)
    expect(await channels.errorOf(channels.session, end)).toBe('WithdrawDelayNotElapsed')
    await mineAt(timestamp + 900n)
    const before = await chain.balanceOf(channels.payer.address)
    expect(await channels.send(channels.session, end)).toEqual([['WithdrawFinalized', { channelId, amount: 400n }]])
    expect((await chain.balanceOf(channels.payer.address)) - before).toBe(400n)
    expect(await channels.state(config)).toMatchObject({ balance: 600n, withdrawal: undefined })
    expect(await channels.errorOf(channels.payer, end)).toBe('WithdrawalNotPending')
  })

  it('of all that an unused channel holds closes it', async () => {
    const config = await channels.open(10n)
    await leave(config, 10n)
    expect((await finalize(config)).map(([name]) => name)).toEqual(['WithdrawFinalized', 'ChannelClosed'])
  })

  it('pays what is free at its end: claims take from it, and a deposit fills it up again', async () => {
    const config = await channels.open(200_000n)
    await claim(config, 700n)
    await initiate(config, 199_300n)
    await claim(config, 50_000n)
    await channels.send(channels.stranger, channels.depositCall(config, 1_000n))
    await channels.wait(900)
    expect(await finalize(config)).toEqual([
      ['WithdrawFinalized', { channelId: channels.id(config), amount: 151_000n }],
    ])
    expect(await channels.state(config)).toMatchObject({ balance: 50_000n, totalClaimed: 50_000n })
  })

  it('of which claims have left nothing ends without a payment', async () => {
    const config = await channels.open(100n)
    await leave(config, 100n)
    await claim(config, 100n)
    expect(await finalize(config)).toEqual([['WithdrawFinalized', { channelId: channels.id(config), amount: 0n }]])
    expect(await channels.state(config)).toMatchObject({ balance: 100n, withdrawal: undefined })
  })

  it('stays open after its delay, and may end long after', async () => {
    const config = await channels.open(100n)
    await leave(config, 100n)
    await channels.wait(2_592_000)
    await claim(config, 30n)
    expect(await finalize(config)).toMatchObject([['WithdrawFinalized', { amount: 70n }]])
  })

  it('makes vouchers above the rest worthless, until there is a new deposit', async () => {
    const config = await channels.open(100n)
    await leave(config, 60n)
    await finalize(config)
    const late = (total: bigint) => channelCalls.claim([channels.row(config, total, { max: 100n })])
    expect(await channels.errorOf(channels.receiver, late(41n))).toBe('ClaimExceedsBalance')
    await channels.send(channels.receiver, late(40n))
    await channels.send(channels.stranger, channels.depositCall(config, 60n))
    await channels.send(channels.receiver, late(100n))
    expect(await channels.state(config)).toMatchObject({ balance: 100n, totalClaimed: 100n })
  })
})

describe('a channel that was emptied', () => {
  it('is made again by a deposit, but not after a claim', async () => {
    const config = await channels.open(10n)
    const empty = channelCalls.refund(config, 1_000n)
    const namesOf = async (data: Hex) => (await channels.send(channels.receiver, data)).map(([name]) => name)
    expect(await namesOf(empty)).toEqual(['Refunded', 'ChannelClosed'])
    expect(await namesOf(channels.depositCall(config, 10n))).toEqual(['ChannelCreated', 'Deposited'])
    await claim(config, 10n)
    expect(await namesOf(channels.depositCall(config, 10n))).toEqual(['Deposited'])
    expect(await namesOf(empty)).toEqual(['Refunded'])
    expect(await channels.state(config)).toMatchObject({ balance: 10n, totalClaimed: 10n })
  })
})

describe('the largest amounts', () => {
  it('fill a channel, are claimed and paid; a second such claim of one receiver overflows its sum', async () => {
    const { abi, bytecode } = contracts.UsdcLike
    const [token, collector] = [accountOf().address, accountOf().address]
    const install = async (address: Hex, code: Hex) => {
      const { data } = await chain.client.call({ data: code })
      await chain.client.setCode({ address, bytecode: data! })
    }
    await install(token, bytecode)
    await install(collector, contracts.OpenDepositCollector.bytecode)
    const mint = { abi: abi as Abi, functionName: 'mint', args: [collector, maxUint128 * 2n] }
    await chain.submit({ to: token, data: encodeFunctionData(mint) })
    const gift = (config: ChannelConfig, amount: bigint) => {
      const data = encodeAbiParameters(parseAbiParameters('uint256, bytes'), [amount, '0x'])
      return encodeFunctionData({ abi: channelAbi, functionName: 'deposit', args: [config, amount, collector, data] })
    }
    const [first, second] = [channels.config({ token }), channels.config({ token })]
    for (const config of [first, second]) await channels.send(channels.stranger, gift(config, maxUint128))
    expect(await channels.errorOf(channels.stranger, gift(first, 1n))).toBe('DepositOverflow')
    await claim(first, maxUint128)
    expect(await channels.state(first)).toMatchObject({ balance: maxUint128, totalClaimed: maxUint128 })
    const more = channelCalls.claim([channels.row(second, 1n)])
    expect(await channels.errorOf(channels.receiver, more)).toBe('Panic')
    const settled = await channels.send(channels.stranger, channelCalls.settle(channels.receiver.address, token))
    expect(settled).toMatchObject([['Settled', { amount: maxUint128 }]])
  })
})
