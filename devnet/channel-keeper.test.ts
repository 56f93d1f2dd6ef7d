import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { channelCalls } from '../src/chain/batch-settlement.ts'
import { type ChannelStep, dataOf } from '../src/payments/channels/channel-steps.ts'
import { claimOf, type SellerChannel, shortageOf, unclaimedOf } from '../src/payments/channels/seller-channel.ts'
import { ChannelSeller } from '../test/support/channel-seller.ts'
import { refuse, startFaultyRpc } from '../test/support/faulty-rpc.ts'
import { HandClock } from '../test/support/hand-clock.ts'
import { randomHash } from '../test/support/signed-payment.ts'
import { TestKept } from '../test/support/test-kept.ts'
import { until } from '../test/support/until.ts'
import { addresses } from './contracts.ts'
import { type Devnet, startDevnet } from './devnet.ts'

let devnet: Devnet
let seller: ChannelSeller
let kept: TestKept

beforeAll(async () => {
  devnet = await startDevnet()
})
afterAll(() => devnet.stop())
beforeEach(async () => {
  seller = await new ChannelSeller(devnet).start()
  kept = new TestKept()
})
afterEach(async () => {
  await devnet.chain.setAutomine(true)
  await seller.stop()
})

const claims = () => seller.facilitator.settles().filter((call) => typeOf(call) === 'claim')
const typeOf = ({ body }: { body: object }) =>
  (body as { paymentPayload: { payload: { type: string } } }).paymentPayload.payload.type
const leave = (channel: SellerChannel, amount: bigint) =>
  seller.channels.send(seller.channels.payer, channelCalls.initiateWithdraw(channel.config, amount))
const finalize = (channel: SellerChannel) =>
  seller.channels.send(seller.channels.payer, channelCalls.finalizeWithdraw(channel.config))

describe('a keeper', () => {
  it('claims what is over the threshold, and takes along what others owe', async () => {
    const [small, large] = [await seller.owing(2_000n), await seller.owing(60_000n)]
    const dust = await seller.owing(10n)
    for (const channel of [small, dust]) kept.put(channel)
    const { turn } = seller.keeper(kept, { claimThreshold: 50_000n })
    await turn()
    expect(claims()).toHaveLength(0)
    kept.put(large)
    await turn()
    expect(claims()).toHaveLength(1)
    expect(await Promise.all([small, large, dust].map((one) => seller.claimed(one)))).toEqual([2_000n, 60_000n, 0n])
    expect(unclaimedOf(kept.of(large.id))).toBe(0n)
    await turn()
    expect(claims()).toHaveLength(1)
  })

  it('claims what is older than 12 h, at its start and at its stop', async () => {
    const clock = new HandClock(Date.now())
    const old = kept.put(await seller.owing(5_000n), { owedSince: clock.now() })
    const { turn } = seller.keeper(kept, { clock })
    await turn()
    expect(await seller.claimed(old)).toBe(0n)
    clock.advance(12 * 60 * 60_000)
    await turn()
    expect(await seller.claimed(old)).toBe(5_000n)

    const { keeper } = seller.keeper(kept)
    kept.put(seller.charge(kept.of(old.id), 7_000n))
    await keeper.start()
    expect(await seller.claimed(old)).toBe(7_000n)
    kept.put(seller.charge(kept.of(old.id), 9_000n))
    await keeper.stop()
    expect(await seller.claimed(old)).toBe(9_000n)
  })

  it('hazard 4.17: claims at its start although its clock was set back since the charge', async () => {
    const clock = new HandClock(Date.now())
    const old = kept.put(await seller.owing(5_000n), { owedSince: clock.now() + 3_600_000 })
    await seller.keeper(kept, { clock }).turn('start')
    expect(await seller.claimed(old)).toBe(5_000n)
  })

  it('settles once a day, and at once what is much', async () => {
    const clock = new HandClock(Date.now())
    const { turn } = seller.keeper(kept, { clock, claimThreshold: 50_000n })
    const channel = kept.put(await seller.owing(300_000n, { deposit: 2_000_000n }))
    await turn()
    const paid = () => devnet.chain.balanceOf(seller.wallet.address)
    expect(await paid()).toBe(0n)
    clock.advance(24 * 60 * 60_000)
    await turn()
    expect(await paid()).toBe(300_000n)
    kept.put(seller.charge(kept.of(channel.id), 900_000n))
    await turn()
    expect(await paid()).toBe(900_000n)
  })

  it('claims by its own transactions while no facilitator takes channels', async () => {
    await seller.giveGas()
    const channel = kept.put(await seller.owing(60_000n))
    const { turn } = seller.keeper(kept, { claimThreshold: 50_000n, relay: seller.relay([]) })
    await turn()
    expect(await seller.claimed(channel)).toBe(60_000n)
  })

  it('of another process claims for all, and writes nothing to records that it does not have', async () => {
    const foreign = kept.put(await seller.owing(60_000n), { isOwn: false })
    const orphan = kept.put(await seller.owing(60_000n))
    const { turn } = seller.keeper(kept, { claimThreshold: 50_000n })
    await turn()
    expect(await Promise.all([foreign, orphan].map((one) => seller.claimed(one)))).toEqual([60_000n, 60_000n])
    expect(kept.of(foreign.id)).toBe(foreign)
    expect(kept.of(orphan.id).onChain.totalClaimed).toBe(60_000n)
  })

  it('that does not claim leaves it to the one that does, until half of a withdrawal has passed', async () => {
    const channel = kept.put(await seller.owing(60_000n))
    const { turn } = seller.keeper(kept, { claimThreshold: 50_000n, isKeeper: false })
    await turn()
    await leave(channel, 50_000n)
    await turn()
    expect(await seller.claimed(channel)).toBe(0n)
    await seller.channels.wait(451)
    await turn()
    expect(await seller.claimed(channel)).toBe(60_000n)
  })
})

describe('hazard 4.1: a seller that has lost its records', () => {
  it('takes at least what the chain has, and claims what the next voucher covers', async () => {
    const before = kept.put(await seller.owing(60_000n))
    await seller.keeper(kept, { claimThreshold: 50_000n }).turn()
    const { id, config, onChain } = before
    kept.put({ ...{ id, config, onChain, best: undefined, charged: 0n, seq: 0, asked: 0n } })
    const { turn } = seller.keeper(kept, { claimThreshold: 5_000n })
    await turn()
    expect(kept.of(id).charged).toBe(60_000n)
    kept.put(seller.charge(kept.of(id), 70_000n))
    await turn()
    expect(await seller.claimed(before)).toBe(70_000n)
  })
})

describe('hazard 4.3: a withdrawal while vouchers are out', () => {
  it('is seen by the next reading, and all that is owed is claimed before it can end', async () => {
    const channel = kept.put(await seller.owing(60_000n))
    const { keeper } = seller.keeper(kept, { readEveryMs: 50 })
    await keeper.start()
    kept.put(seller.charge(kept.of(channel.id), 70_000n))
    await leave(channel, 30_000n)
    await until(async () => (await seller.claimed(channel)) === 70_000n)
    expect(shortageOf(kept.of(channel.id), 1n)).toBe('withdrawal')
    await seller.channels.wait(901)
    await finalize(channel)
    await until(() => kept.of(channel.id).onChain.balance === 70_000n)
    expect(unclaimedOf(kept.of(channel.id))).toBe(0n)
    await keeper.stop()
  })

  it('that an RPC which is stuck hides: what it shows counts as old, and what is owed is claimed all the same', async () => {
    const { id } = kept.put(await seller.owing(2_000n))
    const clock = new HandClock((await seller.chain.blockTimeMs()) + 60_000)
    const { keeper, turn } = seller.keeper(kept, { clock, lagMaxMs: 180_000, claimThreshold: 50_000n })
    await turn()
    const seenAt = () => kept.entries.get(id)!.seenAt
    expect(keeper.sight().lagMs).toBe(0)
    const before = seenAt()
    clock.advance(180_000)
    kept.put(seller.charge(kept.of(id), 60_000n))
    await turn()
    expect(keeper.sight().lagMs).toBe(240_000)
    expect(seller.log).toContainEqual('no call on a channel is taken')
    expect([seenAt() <= before, await seller.claimed(kept.of(id))]).toEqual([true, 60_000n])
  })

  it('that began while this node was away is claimed at its start, before it serves', async () => {
    const channel = kept.put(await seller.owing(40_000n))
    await leave(channel, 50_000n)
    const { keeper } = seller.keeper(kept)
    await keeper.start()
    expect(await seller.claimed(channel)).toBe(40_000n)
    expect(seller.log).toContain('the payer of a channel takes 0.05 USDC out: what it owes is claimed now')
    await keeper.stop()
  })
})

describe('hazard 4.4: after a withdrawal less is left than was charged', () => {
  it('claims what is left, says what is lost, and claims it after a new deposit', async () => {
    const channel = kept.put(await seller.owing(80_000n))
    await leave(channel, 70_000n)
    await seller.channels.wait(901)
    await finalize(channel)
    const { turn } = seller.keeper(kept, { claimThreshold: 10_000n })
    await turn()
    expect(await seller.claimed(channel)).toBe(30_000n)
    expect(seller.log).toContain('a withdrawal has taken escrow of a channel: 0.05 USDC of charges are lost')
    await seller.channels.send(seller.channels.stranger, seller.channels.depositCall(channel.config, 60_000n))
    await turn()
    expect(await seller.claimed(channel)).toBe(80_000n)
  })
})

describe('hazard 4.5: one bad channel in a batch', () => {
  it('does not hold back the others', async () => {
    const good = [await seller.owing(60_000n), await seller.owing(60_000n)]
    const bad = await seller.owing(60_000n, { signer: seller.channels.stranger })
    for (const channel of [good[0]!, bad, good[1]!]) kept.put(channel)
    const { keeper, turn } = seller.keeper(kept, { claimThreshold: 50_000n })
    await turn()
    expect(await Promise.all(good.map((one) => seller.claimed(one)))).toEqual([60_000n, 60_000n])
    expect(await seller.claimed(bad)).toBe(0n)
    expect(keeper.sight().failing).toMatchObject({ count: 1, reason: expect.stringMatching(/revert|InvalidSignature/) })
  })
})

describe('hazard 4.7: a facilitator that lies about a claim', () => {
  it('that says it is done is not believed: it is sent again', async () => {
    const channel = kept.put(await seller.owing(60_000n))
    const clock = new HandClock(Date.now())
    seller.waits.shownMs = 100
    seller.facilitator.faults.push({ kind: 'other-hash', transaction: randomHash() })
    const { turn, keeper } = seller.keeper(kept, { claimThreshold: 50_000n, clock })
    await turn()
    expect(unclaimedOf(kept.of(channel.id))).toBe(60_000n)
    expect(keeper.sight().failing).toMatchObject({
      reason: expect.stringContaining('the facilitator says that it is done'),
    })
    await turn()
    expect(claims()).toHaveLength(1)
    clock.advance(60_000)
    await turn()
    expect(await seller.claimed(channel)).toBe(60_000n)
    expect(keeper.sight().failing).toBeUndefined()
  })

  it('that says it failed, hangs or dies after it has sent: the chain counts', async () => {
    for (const fault of ['refuse', 'drop', 'pending', 'garbage'] as const) {
      const channel = kept.put(await seller.owing(60_000n))
      const { turn } = seller.keeper(kept, { claimThreshold: 50_000n })
      seller.facilitator.faults.push({ kind: fault, reason: 'no', settles: true } as never)
      await turn()
      expect(await seller.claimed(channel), fault).toBe(60_000n)
      expect(unclaimedOf(kept.of(channel.id)), fault).toBe(0n)
    }
  })

  it('that holds the request is left after a time, and an own transaction does it', async () => {
    await seller.giveGas()
    seller.waits.facilitatorMs = 200
    seller.waits.shownMs = 200
    seller.facilitator.faults.push({ kind: 'hold' })
    const channel = kept.put(await seller.owing(60_000n))
    await seller.keeper(kept, { claimThreshold: 50_000n }).turn()
    expect(await seller.claimed(channel)).toBe(60_000n)
  })

  it('a settlement of somebody else counts', async () => {
    const channel = kept.put(await seller.owing(600_000n, { deposit: 1_000_000n }))
    const { turn } = seller.keeper(kept, { claimThreshold: 50_000n })
    seller.facilitator.faults.push({ kind: 'pass' }, { kind: 'refuse', reason: 'nothing_to_settle' })
    await turn()
    expect(await seller.claimed(channel)).toBe(600_000n)
    await seller.channels.send(seller.channels.stranger, channelCalls.settle(seller.wallet.address, addresses.usdc))
    await turn()
    expect(await devnet.chain.balanceOf(seller.wallet.address)).toBe(600_000n)
  })
})

describe('hazard 4.16: the token is paused', () => {
  it('a seller claims all the same, and settles later', async () => {
    const channel = kept.put(await seller.owing(600_000n, { deposit: 1_000_000n }))
    const clock = new HandClock(Date.now())
    const { turn } = seller.keeper(kept, { claimThreshold: 50_000n, clock })
    const code = (await devnet.chain.client.getCode({ address: addresses.usdc }))!
    // Every call of the token reverts.
    await devnet.chain.client.setCode({ address: addresses.usdc, bytecode: '0x60006000fd' })
    await turn()
    expect(await seller.claimed(channel)).toBe(600_000n)
    await devnet.chain.client.setCode({ address: addresses.usdc, bytecode: code })
    clock.advance(60_000)
    await turn()
    expect(await devnet.chain.balanceOf(seller.wallet.address)).toBe(600_000n)
  })
})

describe('hazard 4.17: the clocks', () => {
  it('of the chain decides when half of a withdrawal has passed, whatever the clock of this node says', async () => {
    const channel = kept.put(await seller.owing(60_000n))
    const behind = new HandClock(Date.now() - 30 * 24 * 60 * 60_000)
    const { turn } = seller.keeper(kept, { isKeeper: false, clock: behind })
    await leave(channel, 50_000n)
    await seller.channels.wait(451)
    await turn()
    expect(await seller.claimed(channel)).toBe(60_000n)
  })
})

describe('hazard 4.18: a reorganization', () => {
  it('that takes a claim back has it claimed again', async () => {
    const channel = kept.put(await seller.owing(60_000n))
    // The account of the devnet's facilitator counts its own transactions, and would wait for the one that is gone.
    const send = async (step: ChannelStep) => {
      await seller.channels.send(seller.channels.stranger, dataOf(step))
      return undefined
    }
    const { turn } = seller.keeper(kept, { claimThreshold: 50_000n, relay: { ...seller.relay(), send } })
    await turn()
    expect(await seller.claimed(channel)).toBe(60_000n)
    await devnet.chain.client.request({ method: 'anvil_rollback', params: [1] } as never)
    expect(await seller.claimed(channel)).toBe(0n)
    await turn()
    expect(await seller.claimed(channel)).toBe(60_000n)
  })
})

describe('hazard 4.19: dust', () => {
  it('is not claimed while it is worth less than its transaction, not even while its payer leaves', async () => {
    const channel = kept.put(await seller.owing(999n))
    await leave(channel, 1_000n)
    const { keeper, turn } = seller.keeper(kept)
    await turn('start')
    await turn()
    await keeper.stop()
    expect(claims()).toHaveLength(0)
  })

  it('is no price for a payer that begins to take one unit out and never ends it', async () => {
    const { id } = kept.put(await seller.owing(2_000n))
    await leave(kept.of(id), 1n)
    const { turn } = seller.keeper(kept)
    await turn()
    // It could end at any moment from now on.
    await seller.channels.wait(901)
    await turn()
    await seller.keeper(kept, { isKeeper: false }).turn()
    expect(claims()).toHaveLength(0)
    expect(seller.log).toContain('the payer of a channel takes 0.000001 USDC out: what it owes is covered by the rest')
    kept.put(seller.charge(kept.of(id), 12_000n))
    await turn()
    expect(await seller.claimed(kept.of(id))).toBe(12_000n)
  })
})

describe('while the chain cannot be read', () => {
  it('nothing is sent, and a node starts', async () => {
    const rpc = await startFaultyRpc(devnet.rpcUrl)
    const blind = await new ChannelSeller(devnet, rpc.url).start()
    kept.put(await blind.owing(60_000n))
    rpc.fault = (call, response) => refuse(response, call, 'rate limited', -32_005, 429)
    const { keeper } = blind.keeper(kept, { claimThreshold: 50_000n })
    await keeper.start()
    await keeper.stop()
    expect(blind.facilitator.calls).toEqual([])
    await blind.stop()
    await rpc.stop()
  })
})

describe('whatever happens to the answers, and whoever withdraws', () => {
  it('the seller never claims above its charges', async () => {
    const fault = fc.constantFrom('pass', 'refuse', 'drop', 'other-hash')
    const step = fc.oneof(
      fc.record({ do: fc.constant('charge' as const), by: fc.integer({ min: 1, max: 20_000 }) }),
      fc.record({ do: fc.constant('turn' as const), fault, settles: fc.boolean() }),
      fc.record({ do: fc.constantFrom('leave' as const, 'wait' as const) }),
    )
    seller.waits.shownMs = 50
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 15 }), async (steps) => {
        const mine = new TestKept()
        const { id } = mine.put(await seller.owing(1_000n))
        const { turn } = seller.keeper(mine, { claimThreshold: 1_000n, clock: new HandClock(Date.now()) })
        for (const it of steps) {
          const channel = mine.of(id)
          const { charged, onChain } = channel
          if (it.do === 'charge' && charged + BigInt(it.by) <= onChain.balance) {
            mine.put(seller.charge(channel, charged + BigInt(it.by)))
          } else if (it.do === 'turn') {
            const transaction = randomHash()
            seller.facilitator.faults.push({ kind: it.fault, settles: it.settles, reason: 'no', transaction } as never)
            await turn()
            seller.facilitator.faults.length = 0
          } else if (it.do === 'leave') await leave(channel, 10_000n).catch(() => {})
          else if (it.do === 'wait') {
            await seller.channels.wait(901)
            await finalize(channel).catch(() => {})
          }
          const state = await seller.channels.state(channel.config)
          expect(state.totalClaimed).toBeLessThanOrEqual(mine.of(id).charged)
          expect(mine.of(id).charged).toBeLessThanOrEqual(mine.of(id).best!.maxClaimableAmount)
        }
        await turn('start')
        const last = mine.of(id)
        // Dust waits for more.
        expect(claimOf(last) === undefined || unclaimedOf(last) < 1_000n).toBe(true)
        expect(await seller.claimed(last)).toBeLessThanOrEqual(last.charged)
      }),
      { numRuns: 30, endOnFailure: true },
    )
  })
})
