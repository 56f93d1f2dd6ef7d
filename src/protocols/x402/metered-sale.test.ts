import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { ChannelBuyer, channelTerms, FakeChannels } from '../../../test/support/channel-buyer.ts'
import { agentId, signed } from '../../../test/support/payments.ts'
import { base64, TestSeller, told } from '../../../test/support/x402-seller.ts'
import { AgentError } from '../../agents/runtime.ts'
import { channelCallId } from '../../payments/channels/call-id.ts'
import type { Pricing } from '../../schema/pricing.ts'
import type { ServedAgent } from './exchange.ts'

const MAX = 5_000n
const tokens: Pricing = { per_call: 100n, per_1k_input_tokens: 1_000n, per_1k_output_tokens: 4_000n, max: MAX }

async function metered(pricing: Pricing = tokens, agent: Partial<ServedAgent> = {}) {
  const chain = new FakeChannels()
  const seller = await new TestSeller({ channels: { reader: chain, ...channelTerms } }).start()
  onTestFinished(() => seller.stop())
  seller.addAgent({ amount: MAX, pricing, isOnChannelsOnly: true, ...agent })
  const buyer = new ChannelBuyer()
  chain.set(buyer.id, 100n * MAX)
  return { seller, buyer, peer: await seller.connect() }
}

test('ADR-37 a call is charged by what the model says it used', async () => {
  const { seller, buyer, peer } = await metered()
  seller.work = async ({ onUsage }) => {
    onUsage?.({ inputTokens: 120, outputTokens: 33 })
    return 'done'
  }
  const id = randomUUID()
  const answer = await buyer.call(peer, MAX, { id, asked: MAX, pricing: tokens })
  const charge = { amount: 352n, total: 352n, seq: 1, units: { input_tokens: 120, output_tokens: 33 } }
  expect(answer?.message.charge).toEqual(charge)
  const stored = await seller.payments.get(channelCallId(buyer.id, id))
  expect(stored).toMatchObject({ state: 'settled', requirements: { amount: 352n }, channel: { charge } })
  // The result that is asked for again has the same charge.
  const again = await peer.askResult(buyer.payment(MAX), { correlation_id: id })
  expect(again?.message.charge).toEqual(charge)
})

test('T43 D55 ADR-37 a charge never passes max, whatever was used', async () => {
  const { seller, buyer, peer } = await metered()
  seller.work = async ({ onUsage }) => {
    onUsage?.({ inputTokens: Number.MAX_SAFE_INTEGER, outputTokens: Number.MAX_SAFE_INTEGER })
    return 'done'
  }
  expect((await buyer.call(peer, MAX, { asked: MAX }))?.message.charge).toMatchObject({ amount: MAX, total: MAX })
})

test('ADR-37 without a usable count of the model, words are charged: never more than it used', async () => {
  const { seller, buyer, peer } = await metered()
  let max = 0n
  for (const usage of [undefined, { inputTokens: Number.NaN, outputTokens: -5 }, { outputTokens: 1.5 }, {}]) {
    seller.work = async ({ onUsage }) => {
      if (usage !== undefined) onUsage?.(usage)
      return 'four words of output'
    }
    max += MAX
    const answer = await buyer.call(peer, max, { task: 'two words', asked: MAX })
    expect(answer?.message.charge).toMatchObject({ amount: 118n, units: { input_tokens: 2, output_tokens: 4 } })
  }
})

test('ADR-37 seconds are counted from the begin of the work, by a clock that nobody sets', async () => {
  const { seller, buyer, peer } = await metered({ per_second: 10n, max: MAX })
  seller.work = async () => {
    seller.clock.advance(2_345)
    seller.clock.jump(3_600_000)
    return 'done'
  }
  const answer = await buyer.call(peer, MAX, { asked: MAX })
  expect(answer?.message.charge).toMatchObject({ amount: 23n, units: { milliseconds: 2_345 } })
})

test('ADR-37 a failed run costs nothing, also after use', async () => {
  const { seller, buyer, peer } = await metered()
  seller.work = async ({ onUsage }) => {
    onUsage?.({ inputTokens: 100, outputTokens: 100 })
    throw new AgentError('AGENT_FAILED', 'the agent broke')
  }
  expect(told(await buyer.call(peer, MAX, { asked: MAX }))).toBe('EXECUTION_FAILED')
  seller.work = async () => 'done'
  expect((await buyer.call(peer, MAX, { asked: MAX }))?.message.charge).toMatchObject({ seq: 1 })
})

test('ADR-37 a buyer that allows less than max, or has read other prices, is refused before any work', async () => {
  const { seller, buyer, peer } = await metered()
  expect(told(await buyer.call(peer, MAX, { asked: MAX - 1n }))).toBe('PAYMENT_AMOUNT_WRONG')
  for (const pricing of [
    { ...tokens, max: MAX + 1n },
    { ...tokens, per_second: 1n },
    { ...tokens, per_call: 99n },
  ]) {
    const answer = await buyer.call(peer, MAX, { asked: MAX + 1n, pricing })
    expect(told(answer)).toBe('PAYMENT_AMOUNT_WRONG')
    expect(answer?.message.message).toContain('read its listing again')
  }
  seller.addAgent({ amount: MAX })
  expect(told(await buyer.call(peer, MAX, { asked: MAX, pricing: tokens }))).toBe('PAYMENT_AMOUNT_WRONG')
  expect(seller.runs).toHaveLength(0)
})

test('ADR-37 an agent that is sold on channels only says so to buyers that pay by themselves, before they sign', async () => {
  const { seller, peer } = await metered()
  const asked = { ...peer.message({ body: base64('task') }), resource: agentId }
  const expected = { error_name: 'PAYMENT_INVALID', message: expect.stringContaining('payment channels only') }
  await peer.send('x402.request', { ...asked, method: 'execute', payment: null })
  expect((await peer.next())?.message).toMatchObject(expected)
  const payment = signed(seller.clock.now()).envelope
  await peer.send('x402.request', { ...asked, method: 'execute', payment: { ...payment, server_nonce: 'preemptive' } })
  expect((await peer.next())?.message).toMatchObject(expected)
  expect(seller.runs).toHaveLength(0)
})
