import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { ChannelBuyer, channelTerms, FakeChannels } from '../../../test/support/channel-buyer.ts'
import { agentId, randomHex } from '../../../test/support/payments.ts'
import { until } from '../../../test/support/until.ts'
import { base64, type TestPeer, TestSeller, told } from '../../../test/support/x402-seller.ts'
import { AgentError } from '../../agents/runtime.ts'
import { channelCallId } from '../../payments/channels/call-id.ts'
import type { SignedVoucher } from '../../schema/channel.ts'
import type { Pricing } from '../../schema/pricing.ts'

const MAX = 10_000n
const pricing: Pricing = { per_1k_output_tokens: 1_000_000n, max: MAX }
const WORDS = ['one', ' two', ' three', ' four', ' five']

/** A seller whose agent shows five words, each of which costs 1,000. It waits for each to be paid for. */
async function growing({ voucherWaitMs = 30_000 } = {}) {
  const chain = new FakeChannels()
  const seller = await new TestSeller({ channels: { reader: chain, ...channelTerms }, voucherWaitMs }).start()
  onTestFinished(() => seller.stop())
  seller.addAgent({ amount: MAX, pricing, isOnChannelsOnly: true })
  seller.work = async ({ onOutput, signal }) => {
    for (const word of WORDS) {
      await onOutput?.(word)
      signal.throwIfAborted()
    }
    return WORDS.join('')
  }
  const buyer = new ChannelBuyer()
  chain.set(buyer.id, 100n * MAX)
  const peer = await seller.connect()
  const begin = async (asked: bigint, max = asked) => {
    const id: string = randomUUID()
    const payment = buyer.payment(max, { asked, grows: true, pricing })
    const message = peer.message({ body: base64('task'), correlation_id: id, stream: true })
    await peer.send('x402.request', { ...message, method: 'execute', resource: agentId, payment })
    return id
  }
  const raise = (id: string, asked: bigint, voucher: SignedVoucher = buyer.voucher(asked), from = peer) =>
    from.send('x402.voucher', { version: '1.0', correlation_id: id, voucher, asked })
  const channel = async () => (await seller.records.sellerChannels.take(buyer.id))!.channel
  return { seller, buyer, peer, begin, raise, channel }
}

/** Reads output until the response, or until `charged` is reached. */
async function shownUntil(peer: TestPeer, charged?: bigint) {
  let shown = ''
  for (;;) {
    const answer = await peer.next()
    if (answer?.type !== 'x402.output') return { shown, answer }
    shown += answer.message.text
    if (charged !== undefined && (answer.message.charged as bigint) >= charged) return { shown, answer }
  }
}

test('ADR-37 output waits where it is not covered, and goes on as its buyer raises the ceiling', async () => {
  const { peer, begin, raise, channel } = await growing()
  const id = await begin(2_000n)
  expect(await shownUntil(peer, 3_000n)).toMatchObject({ shown: 'one two' })
  await raise(id, 4_000n)
  expect(await shownUntil(peer, 5_000n)).toMatchObject({ shown: ' three four' })
  await raise(id, 6_000n)
  // What the response brings need not be shown before it.
  const { answer } = await shownUntil(peer)
  expect(told(answer)).toBe('one two three four five')
  expect(answer?.message.charge).toEqual({ amount: 5_000n, total: 5_000n, seq: 1, units: { output_tokens: 5 } })
  expect(await channel()).toMatchObject({ charged: 5_000n, best: { maxClaimableAmount: 6_000n } })
})

test('T43 D55 ADR-37 a buyer that withholds vouchers gets what it has paid for, marked as cut, and frees the rest', async () => {
  const { seller, buyer, peer, begin } = await growing({ voucherWaitMs: 30 })
  const id = await begin(2_000n)
  const { answer } = await shownUntil(peer)
  expect(told(answer)).toBe('one two')
  const charge = { amount: 2_000n, total: 2_000n, seq: 1, units: { output_tokens: 2 }, cut: true }
  expect(answer?.message.charge).toEqual(charge)
  // Asked for again, it is the same: also after a restart.
  expect((await peer.askResult(buyer.payment(2_000n), { correlation_id: id }))?.message.charge).toEqual(charge)
  expect(await seller.payments.get(channelCallId(buyer.id, id))).toMatchObject({ channel: { charge } })
  // Nothing stays reserved: the next call fits under the ceiling that is left.
  seller.work = async () => 'word'
  const next = await buyer.call(peer, 2_000n + MAX, { asked: MAX })
  expect(next?.message.charge).toMatchObject({ amount: 1_000n, total: 3_000n })
})

test('D55 ADR-12 a limit that ends a run while its output waits to be paid for is marked as cut', async () => {
  const { seller, peer, begin } = await growing()
  const limit = new AbortController()
  seller.work = async ({ onOutput, signal }) => {
    const limited = AbortSignal.any([signal, limit.signal])
    for (const word of WORDS) {
      await Promise.race([onOutput?.(word), once(limited, 'abort')])
      if (limit.signal.aborted) throw new AgentError('AGENT_TIMEOUT', 'the agent took longer than its limit')
    }
    return WORDS.join('')
  }
  await begin(2_000n)
  expect(await shownUntil(peer, 3_000n)).toMatchObject({ shown: 'one two' })
  limit.abort()
  const { answer } = await shownUntil(peer)
  expect(told(answer)).toBe('one two')
  expect(answer?.message.charge).toMatchObject({ amount: 2_000n, cut: true })
})

test('ADR-37 after some cuts a payer covers its calls from their start', async () => {
  const { peer, begin, seller } = await growing({ voucherWaitMs: 5 })
  for (let cut = 1; cut <= 3; cut++) {
    await begin(2_000n, 2_000n * BigInt(cut))
    expect((await shownUntil(peer)).answer?.message.charge).toMatchObject({ cut: true })
  }
  await begin(MAX - 1n, 3n * MAX)
  expect(told((await shownUntil(peer)).answer)).toBe('PAYMENT_AMOUNT_WRONG')
  expect(seller.runs).toHaveLength(3)
})

test('ADR-37 vouchers that are late, of another peer or channel, wrong, too low or too high raise nothing', async () => {
  const { seller, buyer, peer, begin, raise, channel } = await growing({ voucherWaitMs: 400 })
  const stranger = await seller.connect('mallory')
  const other = new ChannelBuyer({ seed: 21 })
  const id = await begin(2_000n)
  await shownUntil(peer, 3_000n)
  await raise(id, 9_000n, buyer.voucher(9_000n), stranger)
  await raise(id, 9_000n, other.voucher(9_000n))
  await raise(id, 9_000n, { ...other.voucher(9_000n), channelId: buyer.id })
  await raise(id, 9_001n, { ...buyer.voucher(9_001n), signature: randomHex(65) })
  await raise(id, 9_002n, buyer.voucher(2_500n))
  await raise(id, 2_000n, buyer.voucher(2_000n))
  await raise(id, MAX + 1n, buyer.voucher(MAX + 1n))
  await raise(randomUUID(), 9_000n)
  const { shown, answer } = await shownUntil(peer)
  expect(shown).toBe('')
  expect(answer?.message.charge).toMatchObject({ amount: 2_000n, cut: true })
  // Too late: the call is over, and the ceiling of the channel stays.
  await raise(id, 8_000n)
  seller.work = async () => 'word'
  await buyer.call(peer, MAX + 2_000n, { asked: MAX })
  expect(await channel()).toMatchObject({ charged: 3_000n, best: { maxClaimableAmount: MAX + 2_000n } })
})

test('T43 D55 ADR-37 a buyer that raises by one unit each time is not paid attention to for ever', async () => {
  const { peer, begin, raise } = await growing()
  const id = await begin(2_000n)
  await shownUntil(peer, 3_000n)
  let asked = 2_000n
  const sending = setInterval(() => void raise(id, ++asked), 1)
  onTestFinished(() => clearInterval(sending))
  // Long before the time of a wait is over.
  const { answer } = await shownUntil(peer)
  clearInterval(sending)
  expect(answer?.message.charge).toMatchObject({ amount: 2_000n, cut: true })
})

test('ADR-37 a buyer that leaves while output waits is charged for what was shown', async () => {
  const { seller, buyer, peer, begin, channel } = await growing({ voucherWaitMs: 30 })
  const id = await begin(2_000n)
  await shownUntil(peer, 3_000n)
  peer.raw.abort(new Error('gone'))
  await until(async () => (await channel()).charged === 2_000n)
  const again = await seller.connect()
  const answer = await again.askResult(buyer.payment(2_000n), { correlation_id: id })
  expect(told(answer)).toBe('one two')
  expect(answer?.message.charge).toMatchObject({ amount: 2_000n, cut: true })
})

test('ADR-37 a call that grows needs a stream, and a first ceiling for what its model reads', async () => {
  const { seller, buyer, peer } = await growing()
  const asked = 2_000n
  const plain = await buyer.call(peer, asked, { asked, grows: true, pricing })
  expect(told(plain)).toBe('PAYMENT_AMOUNT_WRONG')
  const read = { per_1k_input_tokens: 1_000_000n, max: MAX }
  seller.addAgent({ amount: MAX, pricing: read })
  const message = peer.message({ body: base64('x'.repeat(300)), stream: true })
  const payment = buyer.payment(asked, { asked, grows: true })
  await peer.send('x402.request', { ...message, method: 'execute', resource: agentId, payment })
  expect(told((await shownUntil(peer)).answer)).toBe('PAYMENT_AMOUNT_WRONG')
  expect(seller.runs).toHaveLength(0)
})
