import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { ChannelRelay } from '../src/payments/channels/channel-relay.ts'
import { bodyOf, type ChannelStep, dataOf } from '../src/payments/channels/channel-steps.ts'
import { reserveCall, type SellerChannel, shortageOf, spendableOf } from '../src/payments/channels/seller-channel.ts'
import { CHANNEL_ASSET, ChannelSeller } from '../test/support/channel-seller.ts'
import { HandClock } from '../test/support/hand-clock.ts'
import { postJson } from '../test/support/signed-payment.ts'
import { TestKept } from '../test/support/test-kept.ts'
import { type Devnet, startDevnet } from './devnet.ts'

let devnet: Devnet
let seller: ChannelSeller
let kept: TestKept
const never = new AbortController().signal

beforeAll(async () => {
  devnet = await startDevnet()
})
afterAll(() => devnet.stop())
beforeEach(async () => {
  seller = await new ChannelSeller(devnet).start()
  kept = new TestKept()
})
afterEach(() => seller.stop())

const chainOf = ({ config }: Pick<SellerChannel, 'config'>) => seller.channels.state(config)
const refund = (id: SellerChannel['id'], wanted?: bigint) => seller.keeper(kept).refunds.refund(id, wanted, never)

/** Sends steps without a facilitator, whose account would wait for a transaction that a reorganization has undone. */
function direct(steps: ChannelStep[] = []): ChannelRelay {
  const send = async (step: ChannelStep) => {
    steps.push(step)
    await seller.channels.send(seller.channels.stranger, dataOf(step))
    return undefined
  }
  return { trouble: async () => undefined, send }
}

describe('a refund', () => {
  it('gives back what no charge and no call needs, and claims the charges in the same transaction', async () => {
    const channel = kept.put(reserveCall(await seller.owing(40_000n), 50n))
    const before = await devnet.chain.balanceOf(seller.channels.payer.address)
    expect(await refund(channel.id)).toMatchObject({ kind: 'refunded', amount: 59_950n })
    expect(await devnet.chain.balanceOf(seller.channels.payer.address)).toBe(before + 59_950n)
    expect(await chainOf(channel)).toMatchObject({ balance: 40_050n, totalClaimed: 40_000n, refundNonce: 1n })
    expect(seller.facilitator.settles()).toHaveLength(1)
    expect(shortageOf({ ...kept.of(channel.id), asked: 0n }, 51n)).toBe('balance')
  })

  it('of a part leaves the rest, and asked for twice at once happens twice, one after the other', async () => {
    const channel = kept.put(await seller.owing(10_000n))
    const { refunds } = seller.keeper(kept)
    const both = await Promise.all([1, 2].map(() => refunds.refund(channel.id, 5_000n, never)))
    expect(both.map(({ kind }) => kind)).toEqual(['refunded', 'refunded'])
    expect(await chainOf(channel)).toMatchObject({ balance: 90_000n, refundNonce: 2n })
  })

  it('of a channel without any call works too', async () => {
    const config = await seller.channels.open(5_000n, seller.config())
    const onChain = await seller.channels.state(config)
    const id = seller.channels.id(config)
    kept.put({ ...{ id, config, onChain, best: undefined, charged: 0n, seq: 0, asked: 0n } })
    expect(await refund(id)).toMatchObject({ kind: 'refunded', amount: 5_000n })
    expect(await seller.channels.state(config)).toMatchObject({ balance: 0n })
  })

  it('hazard 4.19: is refused where it costs more than it moves', async () => {
    const channel = kept.put(await seller.owing(99_500n))
    expect(await refund(channel.id)).toMatchObject({
      kind: 'refused',
      reason: 'less than 1000 is free in this channel',
    })
    const other = kept.put(await seller.owing(10n))
    expect(await refund(other.id, 999n)).toMatchObject({ kind: 'refused' })
    expect(seller.facilitator.calls).toEqual([])
  })

  it('that was signed and never sent, because the process ended, is sent by the keeper', async () => {
    const channel = await seller.owing(40_000n)
    const refund = { nonce: 0n, amount: 60_000n }
    kept.put({ ...channel, refund }, { usedAt: Date.now() - 3 * 60_000 })
    expect(spendableOf({ ...channel, refund })).toBe(40_000n)
    await seller.keeper(kept).turn()
    expect(await chainOf(channel)).toMatchObject({ balance: 40_000n, totalClaimed: 40_000n, refundNonce: 1n })
  })

  it('of a channel that another process has is refused here', async () => {
    const channel = kept.put(await seller.owing(10_000n), { isOwn: false })
    expect((await refund(channel.id)).kind).toBe('refused')
    expect(await chainOf(channel)).toMatchObject({ balance: 100_000n, refundNonce: 0n })
  })

  it('is not held back by a claim that the contract refuses', async () => {
    const channel = kept.put(await seller.owing(40_000n, { signer: seller.channels.stranger }))
    seller.waits.shownMs = 100
    expect(await refund(channel.id)).toMatchObject({ kind: 'refunded', amount: 60_000n })
    expect(await chainOf(channel)).toMatchObject({ balance: 40_000n, totalClaimed: 0n })
  })

  it('is given without being asked for from a channel that nobody has used for long', async () => {
    const clock = new HandClock(Date.now())
    const channel = kept.put(await seller.owing(10_000n, { deposit: 200_000n }), { usedAt: clock.now() })
    const { turn } = seller.keeper(kept, { clock })
    await turn()
    expect(await chainOf(channel)).toMatchObject({ balance: 200_000n })
    clock.advance(31 * 24 * 60 * 60_000)
    await turn()
    expect(await chainOf(channel)).toMatchObject({ balance: 10_000n, totalClaimed: 10_000n })
  })
})

describe('hazard 4.18: a refund and a reorganization', () => {
  it('that frees the nonce gets the same amount again, and never another one', async () => {
    const channel = kept.put(await seller.owing(10_000n))
    const steps: ChannelStep[] = []
    const { refunds } = seller.keeper(kept, { relay: direct(steps) })
    expect(await refunds.refund(channel.id, 30_000n, never)).toMatchObject({ kind: 'refunded', amount: 30_000n })
    await devnet.chain.client.request({ method: 'anvil_rollback', params: [1] } as never)
    expect(await chainOf(channel)).toMatchObject({ balance: 100_000n, refundNonce: 0n })
    expect(await refunds.refund(channel.id, 70_000n, never)).toMatchObject({ kind: 'refunded', amount: 30_000n })
    const signed = steps.flatMap((step) => (step.type === 'refund' ? [step.refund.amount] : []))
    expect(new Set(signed)).toEqual(new Set([30_000n]))
  })

  it('a refund that a facilitator kept for itself is counted as gone, and is sent again as it was', async () => {
    const channel = kept.put(await seller.owing(10_000n))
    seller.waits.shownMs = 100
    const refusal = { kind: 'refuse', reason: 'refund_transaction_failed' } as const
    seller.facilitator.faults.push(refusal, refusal)
    expect(await refund(channel.id, 30_000n)).toMatchObject({ kind: 'pending' })
    expect(spendableOf(kept.of(channel.id))).toBe(70_000n)
    expect(shortageOf({ ...kept.of(channel.id), asked: 0n }, 60_001n)).toBe('withdrawal')
    expect(await refund(channel.id, 50_000n)).toMatchObject({ kind: 'refunded', amount: 30_000n })
    expect(await chainOf(channel)).toMatchObject({ balance: 70_000n, totalClaimed: 10_000n })
  })

  it('sent by somebody else without its claim takes nothing of the charges', async () => {
    const channel = kept.put(await seller.owing(10_000n))
    const relay = direct()
    const alone = {
      ...relay,
      send: (step: ChannelStep) => relay.send({ ...step, claim: undefined } as never, isDone, never),
    }
    const isDone = async () => true
    const { refunds, turn } = seller.keeper(kept, { relay: alone, claimThreshold: 1n })
    expect(await refunds.refund(channel.id, undefined, never)).toMatchObject({ kind: 'refunded', amount: 90_000n })
    expect(await chainOf(channel)).toMatchObject({ balance: 10_000n, totalClaimed: 0n })
    await turn()
    expect(await seller.claimed(channel)).toBe(10_000n)
  })
})

describe('hazard 4.8: a facilitator cannot give the escrow back', () => {
  it('to anybody who asks for it: only this seller has the key', async () => {
    const channel = kept.put(await seller.owing(40_000n))
    const steps: ChannelStep[] = []
    const send = async (step: ChannelStep) => {
      steps.push(step)
      return undefined
    }
    await seller.keeper(kept, { relay: { ...direct(), send } }).refunds.refund(channel.id, undefined, never)
    const body = JSON.parse(bodyOf(steps[0]!, CHANNEL_ASSET))
    delete body.paymentPayload.payload.refundAuthorizerSignature
    delete body.paymentPayload.payload.claimAuthorizerSignature
    const { body: answer } = await postJson(`${devnet.facilitatorUrl}/settle`, body)
    expect(answer).toMatchObject({ success: false })
    expect(await chainOf(channel)).toMatchObject({ balance: 100_000n, refundNonce: 0n })
  })
})

describe('hazard 4.21: channels of another authorizer', () => {
  it('do not hold back the claims of the others', async () => {
    const receiverAuthorizer = seller.channels.authorizer.address
    const foreign = kept.put(await seller.owing(60_000n, { changes: { receiverAuthorizer } }))
    const own = kept.put(await seller.owing(60_000n))
    await seller.keeper(kept, { claimThreshold: 50_000n }).turn()
    expect(await seller.claimed(own)).toBe(60_000n)
    expect(await seller.claimed(foreign)).toBe(0n)
  })

  it('are the old ones only after the wallet has changed: the key comes from the wallet', () => {
    expect(seller.wallet.channelSigner('claims').address).toBe(seller.authorizer.address)
  })
})
