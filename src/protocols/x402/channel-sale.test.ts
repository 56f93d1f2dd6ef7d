import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test, vi } from 'vitest'
import { ChannelBuyer, channelTerms, FakeChannels, PRICE, refusal } from '../../../test/support/channel-buyer.ts'
import { HandClock } from '../../../test/support/hand-clock.ts'
import { agentId, randomHex, testWallet } from '../../../test/support/payments.ts'
import { until } from '../../../test/support/until.ts'
import { TestSeller, type TestSellerOptions, told } from '../../../test/support/x402-seller.ts'
import { AgentError } from '../../agents/runtime.ts'
import { ChainError } from '../../chain/rpc.ts'
import { channelCallId } from '../../payments/channels/call-id.ts'
import { currentReader } from '../../payments/channels/chain-lag.ts'
import { x402ReceiptSigner } from '../../payments/x402-receipt.ts'
import type { SignedX402Receipt } from '../../schema/receipt.ts'

const DEPOSIT = 100n * PRICE

async function openChannel(options: TestSellerOptions = {}) {
  const chain = new FakeChannels()
  const seller = await new TestSeller({ channels: { reader: chain, ...channelTerms }, ...options }).start()
  onTestFinished(() => seller.stop())
  const buyer = new ChannelBuyer()
  chain.set(buyer.id, DEPOSIT)
  return { chain, seller, buyer, peer: await seller.connect() }
}

const stored = async (seller: TestSeller, { id }: ChannelBuyer) =>
  (await seller.records.sellerChannels.take(id))?.channel

test('a call on a channel is run, charged and answered, without a challenge and without a payment of its own', async () => {
  const { seller, buyer, peer, chain } = await openChannel()
  const id = randomUUID()
  const answer = await buyer.call(peer, PRICE, { id })
  expect(told(answer)).toBe('re: task')
  expect(answer?.message).toMatchObject({
    ...{ payment_id: channelCallId(buyer.id, id), tx_hash: '', receipt: { payload: { payer: buyer.config.payer } } },
    charge: { amount: PRICE, total: PRICE, seq: 1 },
  })
  const second = await buyer.call(peer, 2n * PRICE, { config: undefined })
  expect(second?.message.charge).toEqual({ amount: PRICE, total: 2n * PRICE, seq: 2 })
  expect(await seller.payments.get(channelCallId(buyer.id, id))).toMatchObject({ state: 'settled', agentId, ran: true })
  expect(await seller.payments.exposed(buyer.config.payer)).toMatchObject({ payer: 0n, payments: 0 })
  expect(await stored(seller, buyer)).toMatchObject({ charged: 2n * PRICE, seq: 2, peerId: 'buyer' })
  expect(chain.looks).toBe(1)
})

test('hazard 4.17: a clock that was set back hides no withdrawal', async () => {
  const { seller, buyer, peer, chain } = await openChannel()
  expect(told(await buyer.call(peer, PRICE))).toBe('re: task')
  seller.clock.jump(-60 * 60_000)
  chain.set(buyer.id, DEPOSIT, { withdrawal: { amount: DEPOSIT - PRICE, initiatedAt: 1 } })
  expect(refusal(await buyer.call(peer, 2n * PRICE))).toBe('withdrawal')
  // Nor does a machine that slept: there the monotonic clock stands still.
  chain.set(buyer.id, DEPOSIT)
  seller.clock.advance(10 * 60_000)
  expect(told(await buyer.call(peer, 2n * PRICE))).toBe('re: task')
  chain.set(buyer.id, DEPOSIT, { withdrawal: { amount: DEPOSIT - 2n * PRICE, initiatedAt: 1 } })
  seller.clock.jump(60 * 60_000)
  expect(refusal(await buyer.call(peer, 3n * PRICE))).toBe('withdrawal')
})

test('hazard 4.3: an RPC that is stuck on an old block hides a withdrawal, so what it shows sells nothing', async () => {
  const clock = new HandClock()
  const [chain, head] = [new FakeChannels(), { timeMs: clock.now() }]
  const reader = currentReader(chain, {
    ...{ clock, lagMaxMs: 180_000 },
    chain: { blockTimeMs: async () => head.timeMs },
  })
  const { seller, buyer, peer } = await openChannel({ clock, channels: { reader, ...channelTerms } })
  chain.set(buyer.id, DEPOSIT)
  head.timeMs -= 181_000
  const overloaded = { error_name: 'OVERLOADED', message: expect.stringContaining('cannot read the chain now') }
  expect((await buyer.call(peer, PRICE))?.message).toMatchObject(overloaded)
  head.timeMs = clock.now()
  expect(told(await buyer.call(peer, PRICE))).toBe('re: task')
  // From here on no new block comes, and each answer of the RPC is like the one before.
  clock.advance(5 * 60_000)
  expect((await buyer.call(peer, 2n * PRICE))?.message).toMatchObject(overloaded)
  expect(seller.runs).toHaveLength(1)
  chain.set(buyer.id, DEPOSIT, { withdrawal: { amount: DEPOSIT, initiatedAt: 1 } })
  head.timeMs = clock.now()
  expect(refusal(await buyer.call(peer, 2n * PRICE))).toBe('withdrawal')
})

test('calls of one turn share one voucher and one signature, and are charged one by one', async () => {
  const { seller, buyer, peer } = await openChannel()
  await buyer.call(peer, PRICE)
  // Only the highest voucher has a good signature: those that it covers are not read.
  const bad = { voucher: { ...buyer.voucher(2n * PRICE), signature: randomHex(65) } }
  const covered = Array.from({ length: 14 }, () => () => buyer.send(peer, 0n, bad))
  await Promise.all([() => buyer.send(peer, 16n * PRICE), ...covered].map((send) => send()))
  const answers = []
  for (let index = 0; index < 15; index++) answers.push(await peer.next())
  expect(new Set(answers.map(told))).toEqual(new Set(['re: task']))
  const charges = answers.map((answer) => answer!.message.charge as { seq: number; total: bigint })
  expect(charges.map(({ seq }) => seq).toSorted((a, b) => a - b)).toEqual(Array.from({ length: 15 }, (_, n) => n + 2))
  expect(charges.every(({ seq, total }) => total === BigInt(seq) * PRICE)).toBe(true)
  expect(await stored(seller, buyer)).toMatchObject({ charged: 16n * PRICE, seq: 16 })
})

test('a run that fails, is canceled or gives nothing costs nothing, and its id is not run again', async () => {
  const { seller, buyer, peer } = await openChannel()
  const failures: [string, () => Promise<string>][] = [
    ['the agent broke', () => Promise.reject(new AgentError('AGENT_FAILED', 'the agent broke'))],
    ['the agent gave no result', async () => ''],
  ]
  for (const [reason, work] of failures) {
    seller.work = work
    const id = randomUUID()
    const answer = await buyer.call(peer, PRICE, { id })
    expect(answer?.message).toMatchObject({ error_name: 'EXECUTION_FAILED', message: reason })
    const again = await buyer.call(peer, PRICE, { id })
    expect(again?.message).toMatchObject({ error_name: 'EXECUTION_FAILED', message: expect.stringContaining(reason) })
    expect(await seller.payments.get(channelCallId(buyer.id, id))).toMatchObject({ state: 'voided' })
  }
  expect(seller.runs).toHaveLength(2)
  expect(await stored(seller, buyer)).toMatchObject({ charged: 0n, seq: 0 })
  // Nothing is kept for them: the whole ceiling is free.
  seller.work = undefined
  expect(told(await buyer.call(peer, PRICE))).toBe('re: task')
})

test('T6 an agent that has bought much for runs that nobody paid for is not run before it is paid, on a channel either', async () => {
  const { seller, buyer, peer } = await openChannel()
  let isAhead = false
  seller.agents.set(agentId, { ...seller.agents.get(agentId)!, isAhead: async () => isAhead })
  const id = randomUUID()
  expect(told(await buyer.call(peer, PRICE, { id }))).toBe('re: task')
  isAhead = true
  const refused = await buyer.call(peer, 2n * PRICE)
  expect(refused?.message).toMatchObject({ error_name: 'PAYMENT_INVALID', message: expect.stringMatching(/by itself/) })
  expect(told(await buyer.call(peer, 2n * PRICE, { id }))).toBe('re: task')
  expect(seller.runs).toHaveLength(1)
  expect(await stored(seller, buyer)).toMatchObject({ charged: PRICE, seq: 1 })
})

test('T5 a known id gets what is stored, one that runs is waited for, and both run and charge once', async () => {
  const { seller, buyer, peer } = await openChannel()
  const { promise, resolve } = Promise.withResolvers<string>()
  seller.work = () => promise
  const id = randomUUID()
  await Promise.all([buyer.send(peer, 2n * PRICE, { id }), buyer.send(peer, 2n * PRICE, { id })])
  const other = await seller.connect()
  const asked = other.askResult(buyer.payment(2n * PRICE), { correlation_id: id })
  await until(() => seller.runs.length === 1)
  resolve('once')
  const answers = [await peer.next(), await peer.next(), await asked, await buyer.call(peer, 5n * PRICE, { id })]
  expect(answers.map(told)).toEqual(['once', 'once', 'once', 'once'])
  expect(new Set(answers.map((answer) => JSON.stringify(answer?.message.charge, bigints)))).toEqual(
    new Set([JSON.stringify({ amount: PRICE, total: PRICE, seq: 1 }, bigints)]),
  )
  expect(seller.runs).toHaveLength(1)
  const stranger = await seller.connect('mallory')
  expect(told(await buyer.call(stranger, PRICE, { id }))).toBe('PAYMENT_INVALID')
  expect(told(await stranger.askResult(buyer.payment(PRICE), { correlation_id: id }))).toBe('PAYMENT_INVALID')
  expect(told(await peer.askResult(buyer.payment(PRICE)))).toBe('PAYMENT_REQUIRED')
})

test('T5 a call that another process ran before this one got its channel is answered, and not run again', async () => {
  const { seller, buyer, peer, chain } = await openChannel()
  await buyer.call(peer, PRICE)
  const second = await new TestSeller({
    database: seller.database,
    channels: { reader: chain, ...channelTerms },
  }).start()
  onTestFinished(() => second.stop())
  const id = randomUUID()
  // The second process has looked for the call. Only then does the first one run it.
  const { has } = second.deps.payments
  vi.spyOn(second.deps.payments, 'has').mockImplementationOnce(async (payment) => {
    const found = await has(payment)
    expect(told(await buyer.call(peer, 2n * PRICE, { id, task: 'once' }))).toBe('re: once')
    return found
  })
  const answer = await buyer.call(await second.connect(), 2n * PRICE, { id, task: 'once' })
  expect(told(answer)).toBe('re: once')
  expect(answer?.message.charge).toEqual({ amount: PRICE, total: 2n * PRICE, seq: 2 })
  expect([seller.runs.length, second.runs.length]).toEqual([2, 0])
  // Nothing is kept for it: the whole ceiling is free.
  expect(told(await buyer.call(await second.connect(), 3n * PRICE))).toBe('re: task')
})

test('an end that the ledger refuses does not take the results of its turn with it', async () => {
  const { seller, buyer, peer } = await openChannel()
  const { promise, resolve } = Promise.withResolvers<string>()
  seller.work = () => promise
  const ids = [randomUUID(), randomUUID(), randomUUID()] as const
  for (const id of ids) await buyer.send(peer, 3n * PRICE, { id })
  await until(() => seller.runs.length === 3)
  const refusedId = channelCallId(buyer.id, ids[1])
  const { charge } = seller.records.sellerChannels
  const spy = vi.spyOn(seller.records.sellerChannels, 'charge').mockImplementation(async (record, seq, change) => {
    if (change.calls.some(({ id }) => id === refusedId)) throw new Error('a rule of the ledger is broken')
    return charge(record, seq, change)
  })
  resolve('done')
  const answers = [await peer.next(), await peer.next(), await peer.next()]
  expect(answers.map(told).filter((text) => text === 'done')).toHaveLength(2)
  expect(await stored(seller, buyer)).toMatchObject({ charged: 2n * PRICE, seq: 2 })
  spy.mockRestore()
  expect(told(await buyer.call(peer, 3n * PRICE))).toBe('done')
})

const bigints = (_key: string, value: unknown) => (typeof value === 'bigint' ? `${value}` : value)

test('the receipt of a call as x402 has it names no transaction', async () => {
  const { buyer, peer } = await openChannel()
  const id = randomUUID()
  await buyer.call(peer, PRICE, { id })
  const asked = { method: 'receipt', correlation_id: id, payment: buyer.payment(PRICE), body: '' }
  const { receipt } = (await peer.request(asked))!.message as { receipt: SignedX402Receipt }
  expect(receipt.payload).toMatchObject({ payer: buyer.config.payer, transaction: '' })
  expect(x402ReceiptSigner(receipt)).toBe(buyer.config.receiver)
})

test('what runs is counted: calls beyond the ceiling, the deposits or a withdrawal are refused with what the seller knows', async () => {
  const { seller, buyer, peer, chain } = await openChannel()
  const { promise, resolve } = Promise.withResolvers<string>()
  seller.work = () => promise
  await buyer.send(peer, PRICE)
  await until(() => seller.runs.length === 1)
  const short = await buyer.call(peer, PRICE)
  expect(short?.message).toMatchObject({
    ...{ error_name: 'PAYMENT_REQUIRED', retryable: true },
    channel: { reason: 'voucher', counted: { total: 0n, seq: 0 }, voucher: buyer.voucher(PRICE) },
  })
  resolve('done')
  expect(told(await peer.next())).toBe('done')
  // The voucher goes beyond the deposits, and the chain is asked once more: a new deposit may be there.
  chain.set(buyer.id, PRICE)
  seller.clock.advance(10 * 60_000)
  expect(refusal(await buyer.call(peer, 2n * PRICE))).toBe('balance')
  seller.clock.advance(3_000)
  chain.set(buyer.id, DEPOSIT)
  expect(told(await buyer.call(peer, 2n * PRICE))).toBe('done')
  chain.set(buyer.id, DEPOSIT, { withdrawal: { amount: DEPOSIT - 3n * PRICE, initiatedAt: 1 } })
  seller.clock.advance(10 * 60_000)
  expect(told(await buyer.call(peer, 4n * PRICE))).toBe('done')
  expect(refusal(await buyer.call(peer, 4n * PRICE))).toBe('withdrawal')
  expect(await stored(seller, buyer)).toMatchObject({ charged: 3n * PRICE, seq: 3 })
})

test('what the buyer allows must be the price at least, and no more than the price is charged', async () => {
  const { seller, buyer, peer } = await openChannel()
  expect(told(await buyer.call(peer, DEPOSIT, { asked: PRICE - 1n }))).toBe('PAYMENT_AMOUNT_WRONG')
  expect(told(await buyer.call(peer, DEPOSIT, { asked: undefined }))).toBe('PAYMENT_AMOUNT_WRONG')
  const answer = await buyer.call(peer, DEPOSIT, { asked: DEPOSIT })
  expect(answer?.message.charge).toEqual({ amount: PRICE, total: PRICE, seq: 1 })
  expect(seller.runs).toHaveLength(1)
})

test('the chain is read again before what is known of it is too old, and nothing is sold while it cannot be read', async () => {
  const { seller, buyer, peer, chain } = await openChannel()
  await buyer.call(peer, PRICE)
  seller.clock.advance(60_000)
  await buyer.call(peer, 2n * PRICE)
  expect(chain.looks).toBe(1)
  seller.clock.advance(120_000)
  chain.failure = new ChainError('CHAIN_UNAVAILABLE', 'the RPC is away')
  expect(told(await buyer.call(peer, 3n * PRICE))).toBe('re: task')
  expect(chain.looks).toBe(2)
  seller.clock.advance(180_000)
  expect(told(await buyer.call(peer, 4n * PRICE))).toBe('OVERLOADED')
  chain.failure = undefined
  expect(told(await buyer.call(peer, 4n * PRICE))).toBe('re: task')
  // A short delay makes a reading old sooner: a third of it.
  expect(seller.runs).toHaveLength(4)
})

test('a blocked payer is refused, and so is a seller without channels and a call while it stops', async () => {
  const { buyer, peer } = await openChannel({ blocked: [testWallet(8).address] })
  expect(refusal(await buyer.call(peer, PRICE))).toBe('refused')
  const old = await new TestSeller().start()
  onTestFinished(() => old.stop())
  expect(told(await buyer.call(await old.connect(), PRICE))).toBe('PAYMENT_INVALID')
  const asked = { method: 'deposit', payment: buyer.payment(PRICE), body: '' }
  expect(told(await (await old.connect()).request(asked))).toBe('PAYMENT_INVALID')
  expect(told(await peer.request(asked))).toBe('PAYMENT_INVALID')
})

test('a seller that offers no channels any more goes on with those it has, and takes no new ones', async () => {
  const { seller, buyer, peer, chain } = await openChannel()
  await buyer.call(peer, PRICE)
  const channels = { reader: chain, ...channelTerms, takesNew: () => false }
  const later = await new TestSeller({ database: seller.database, channels }).start()
  onTestFinished(() => later.stop())
  const again = await later.connect()
  expect(told(await buyer.call(again, 2n * PRICE))).toBe('re: task')
  const other = new ChannelBuyer()
  chain.set(other.id, DEPOSIT)
  expect(refusal(await other.call(again, PRICE))).toBe('refused')
  const asked = { method: 'deposit', payment: other.payment(PRICE), body: '' }
  expect((await again.request(asked))?.message).toMatchObject({ message: 'this seller takes no new deposits' })
})

test('a seller that lost records takes over what the buyer has counted, and never lowers its sum', async () => {
  const { seller, buyer, peer } = await openChannel()
  const counted = { total: 30n * PRICE, seq: 30 }
  const answer = await buyer.call(peer, 31n * PRICE, { counted })
  expect(answer?.message.charge).toEqual({ amount: PRICE, total: 31n * PRICE, seq: 31 })
  const lower = await buyer.call(peer, 32n * PRICE, { counted: { total: 0n, seq: 0 } })
  expect(lower?.message.charge).toEqual({ amount: PRICE, total: 32n * PRICE, seq: 32 })
  // A number that no ledger can hold is not taken over.
  const huge = await buyer.call(peer, 50n * PRICE, { counted: { total: 40n * PRICE, seq: 2 ** 53 - 1 } })
  expect(huge?.message.charge).toEqual({ amount: PRICE, total: 33n * PRICE, seq: 33 })
  expect(await stored(seller, buyer)).toMatchObject({ charged: 33n * PRICE, seq: 33 })
})
