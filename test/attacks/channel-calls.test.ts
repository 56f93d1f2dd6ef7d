/** Calls on payment channels: what a hostile buyer, two processes, a crash and a ledger that is away can do to a seller's money. */
import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { channelCallId } from '../../src/payments/channels/call-id.ts'
import { checkVoucher } from '../../src/payments/voucher.ts'
import { openDatabase } from '../../src/store/database.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { all } from '../../src/store/query.ts'
import { StoreError } from '../../src/store/store-error.ts'
import { ChannelBuyer, channelTerms, FakeChannels, PRICE, refusal } from '../support/channel-buyer.ts'
import { asEnded, onBothEngines } from '../support/ledgers.ts'
import { randomHex, testWallet } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { TestSeller, type TestSellerOptions, told } from '../support/x402-seller.ts'

const DEPOSIT = 100n * PRICE

async function sellerOn(ledger: LedgerDatabase, chain: FakeChannels, options: TestSellerOptions = {}) {
  const seller = await new TestSeller({ ledger, channels: { reader: chain, ...channelTerms }, ...options }).start()
  onTestFinished(() => seller.stop())
  return seller
}

function funded(changes: ConstructorParameters<typeof ChannelBuyer>[0] = {}) {
  const chain = new FakeChannels()
  const buyer = new ChannelBuyer(changes)
  chain.set(buyer.id, DEPOSIT)
  return { chain, buyer }
}

type PaymentRow = { state: string; amount: number; channel_seq: number | null }
const paymentsIn = (ledger: LedgerDatabase) =>
  ledger.query(all<PaymentRow>('SELECT state, amount, channel_seq FROM payments ORDER BY no'))
const channelsIn = (ledger: LedgerDatabase) =>
  ledger.query(all<{ charged: string; seq: number }>('SELECT charged, seq FROM seller_channels'))

onBothEngines((open, openTwo, engine) => {
  test('hazard 4.10: 64 calls at once under one voucher: each is run and charged once, and none beyond the ceiling', async () => {
    const ledger = await open()
    const { chain, buyer } = funded()
    const seller = await sellerOn(ledger, chain, { slots: { concurrentMax: 128, waitingMax: 128 } })
    const peers = await Promise.all(Array.from({ length: 8 }, () => seller.connect()))
    const answers = await Promise.all(
      peers.map(async (peer) => {
        await Promise.all(Array.from({ length: 8 }, () => buyer.send(peer, 60n * PRICE)))
        const got = []
        for (let index = 0; index < 8; index++) got.push(await peer.next())
        return got
      }),
    )
    const results = answers.flat().map((answer) => (answer?.type === 'x402.error' ? refusal(answer) : told(answer)))
    expect(results.filter((result) => result === 're: task').length).toBeLessThanOrEqual(60)
    expect(results.filter((result) => result !== 're: task' && result !== 'voucher')).toEqual([])
    const rows = await paymentsIn(ledger)
    expect(rows.map((row) => row.channel_seq).toSorted((a, b) => a! - b!)).toEqual(rows.map((_, index) => index + 1))
    expect(seller.runs).toHaveLength(rows.length)
    expect(await channelsIn(ledger)).toEqual([{ charged: `${BigInt(rows.length) * PRICE}`, seq: rows.length }])
  })

  test('hazard 4.9: of two processes one has the channel; the other runs nothing, and has it when it is free', async () => {
    const ledgers = await openTwo()
    if (engine === 'SQLite') return
    const { chain, buyer } = funded()
    const [first, second] = [await sellerOn(ledgers[0], chain), await sellerOn(ledgers[1], chain)]
    const [here, there] = [await first.connect(), await second.connect()]
    const id = randomUUID()
    const { promise, resolve } = Promise.withResolvers<string>()
    first.work = () => promise
    const sold = buyer.call(here, 10n * PRICE, { id })
    await until(() => first.runs.length === 1)
    expect(refusal(await buyer.call(there, 10n * PRICE, { id }))).toBe('elsewhere')
    // Nobody says that the call is unknown while it runs.
    expect(refusal(await there.askResult(buyer.payment(10n * PRICE), { correlation_id: id }))).toBe('elsewhere')
    const channels = first.deps.channels!
    channels.wanted(buyer.id)
    expect(refusal(await buyer.call(there, 10n * PRICE))).toBe('elsewhere')
    resolve('done')
    expect(told(await sold)).toBe('done')
    const isFree = async () => told(await buyer.call(there, 10n * PRICE)) === 're: task'
    await until(isFree)
    expect(told(await there.askResult(buyer.payment(10n * PRICE), { correlation_id: id }))).toBe('done')
    expect(refusal(await buyer.call(here, 10n * PRICE))).toBe('elsewhere')
    expect(await channelsIn(ledgers[0])).toEqual([{ charged: `${2n * PRICE}`, seq: 2 }])
  })

  test('a stranger who knows only the id of a channel does not move it from process to process', async () => {
    const ledgers = await openTwo()
    if (engine === 'SQLite') return
    const { chain, buyer } = funded()
    const [first, second] = [await sellerOn(ledgers[0], chain), await sellerOn(ledgers[1], chain)]
    const here = await first.connect()
    expect(told(await buyer.call(here, PRICE))).toBe('re: task')
    const owner = async () => (await ledgers[0].query(all<{ owner: string }>('SELECT owner FROM seller_channels')))[0]
    const before = await owner()
    const stranger = await second.connect('mallory')
    const forged = { voucher: { ...buyer.voucher(2n * PRICE), signature: randomHex(65) }, config: undefined }
    expect(refusal(await buyer.call(stranger, 2n * PRICE, forged))).toBe('refused')
    const asked = buyer.payment(2n * PRICE, forged)
    expect(told(await stranger.askResult(asked, { correlation_id: randomUUID() }))).toBe('PAYMENT_REQUIRED')
    expect(await owner()).toEqual(before)
    // Its process still has it, and knows the sums.
    expect(told(await buyer.call(here, 2n * PRICE))).toBe('re: task')
    expect(await channelsIn(ledgers[0])).toEqual([{ charged: `${2n * PRICE}`, seq: 2 }])
  })

  test('a process that has lost its channel charges nothing for what it ran, and answers with no result', async () => {
    const ledger = await open()
    const { chain, buyer } = funded()
    const old = await sellerOn(asEnded(ledger), chain)
    const { promise, resolve } = Promise.withResolvers<string>()
    old.work = () => promise
    const id = randomUUID()
    const lost = buyer.call(await old.connect(), PRICE, { id })
    await until(() => old.runs.length === 1)
    const heir = await sellerOn(ledger, chain)
    const peer = await heir.connect()
    expect(told(await peer.askResult(buyer.payment(PRICE), { correlation_id: id }))).toBe('PAYMENT_REQUIRED')
    expect(told(await buyer.call(peer, PRICE, { id }))).toBe('re: task')
    resolve('too late')
    expect(refusal(await lost)).toBe('elsewhere')
    expect(await paymentsIn(ledger)).toEqual([{ state: 'settled', amount: Number(PRICE), channel_seq: 1 }])
    expect(await channelsIn(ledger)).toEqual([{ charged: `${PRICE}`, seq: 1 }])
  })

  test('the best voucher is on disk before a call runs, so what a restart finds covers what was charged', async () => {
    const ledger = await open()
    const { chain, buyer } = funded()
    const seller = await sellerOn(ledger, chain)
    let found: unknown
    seller.work = async () => {
      const taken = await seller.records.sellerChannels.take(buyer.id)
      found = taken?.channel.best?.maxClaimableAmount
      return 'done'
    }
    await buyer.call(await seller.connect(), 7n * PRICE)
    expect(found).toBe(7n * PRICE)
    await seller.stop()
    const again = await sellerOn(ledger, chain)
    const peer = await again.connect()
    // A lower voucher says nothing new, and a new one is not needed: the stored one covers the call.
    const answer = await buyer.call(peer, 2n * PRICE, { config: undefined })
    expect(answer?.message.charge).toEqual({ amount: PRICE, total: 2n * PRICE, seq: 2 })
    const [kept] = await again.deps.channels!.list()
    expect(checkVoucher(buyer.config, kept!.channel.best!, 84_532)).toMatchObject({ ok: true })
  })

  test('while the ledger is away what has ended is kept, is stored once, and whoever asks again gets it', async () => {
    const ledger = await open()
    let isAway = false
    const failing: LedgerDatabase = {
      ...ledger,
      commit: (...change) =>
        isAway ? Promise.reject(new StoreError('STORE_AWAY', 'the database is away')) : ledger.commit(...change),
    }
    const { chain, buyer } = funded()
    const seller = await sellerOn(failing, chain)
    const peer = await seller.connect()
    seller.work = async () => {
      isAway = true
      return 'kept'
    }
    const id = randomUUID()
    expect(told(await buyer.call(peer, 9n * PRICE, { id }))).toBe('SETTLEMENT_FAILED')
    expect(told(await buyer.call(peer, 9n * PRICE))).toBe('SETTLEMENT_FAILED')
    const asked = (await seller.connect()).askResult(buyer.payment(9n * PRICE), { correlation_id: id })
    isAway = false
    expect(told(await asked)).toBe('kept')
    expect(await channelsIn(ledger)).toEqual([{ charged: `${PRICE}`, seq: 1 }])
    expect(seller.runs).toHaveLength(1)
  })

  test('an end that came before the ledger was known to be away is waited for until it is stored, and not run again', async () => {
    const ledger = await open()
    const stuck = Promise.withResolvers<never>()
    let next: Promise<never> | undefined
    const failing: LedgerDatabase = {
      ...ledger,
      commit(...change) {
        const failure = next
        next = undefined
        return failure ?? ledger.commit(...change)
      },
    }
    const { chain, buyer } = funded()
    const seller = await sellerOn(failing, chain)
    const peer = await seller.connect()
    // Its voucher covers all that comes.
    await buyer.call(peer, 9n * PRICE)
    const [first, second] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()]
    seller.work = ({ input }) => (input === 'first' ? first.promise : second.promise)
    const id = randomUUID()
    await buyer.send(peer, 9n * PRICE, { task: 'first' })
    await buyer.send(peer, 9n * PRICE, { task: 'second', id })
    await until(() => seller.runs.length === 3)
    next = stuck.promise
    first.resolve('first')
    await until(() => next === undefined)
    second.resolve('second')
    // Its end waits for the change that is under way.
    await new Promise((resolve) => setImmediate(() => setImmediate(() => setImmediate(resolve))))
    stuck.reject(new StoreError('STORE_AWAY', 'the database is away'))
    expect([await peer.next(), await peer.next()].map(told)).toEqual(['SETTLEMENT_FAILED', 'SETTLEMENT_FAILED'])
    expect(told(await buyer.call(peer, 9n * PRICE, { task: 'second', id }))).toBe('second')
    expect(seller.runs).toHaveLength(3)
    expect(await channelsIn(ledger)).toEqual([{ charged: `${3n * PRICE}`, seq: 3 }])
  })

  test('a change that is stored although nobody said so is not stored twice', async () => {
    const ledger = await open()
    let isLost = false
    const failing: LedgerDatabase = {
      ...ledger,
      async commit(...change) {
        const value = await ledger.commit(...change)
        if (!isLost) return value
        isLost = false
        throw new StoreError('STORE_IN_DOUBT', 'the connection was lost')
      },
    }
    const { chain, buyer } = funded()
    const seller = await sellerOn(failing, chain)
    seller.work = async () => {
      isLost = true
      return 'done'
    }
    const id = randomUUID()
    const peer = await seller.connect()
    expect(told(await buyer.call(peer, 9n * PRICE, { id }))).toBe('SETTLEMENT_FAILED')
    expect(told(await peer.askResult(buyer.payment(9n * PRICE), { correlation_id: id }))).toBe('done')
    seller.work = undefined
    expect((await buyer.call(peer, 9n * PRICE))?.message.charge).toMatchObject({ total: 2n * PRICE, seq: 2 })
    expect(await channelsIn(ledger)).toEqual([{ charged: `${2n * PRICE}`, seq: 2 }])
  })
})

const open = async (): Promise<LedgerDatabase> => openDatabase({ path: ':memory:' })

test('hazard 4.13: nothing is stored for a stranger: not without a deposit, with other terms, or by a wrong signature', async () => {
  const ledger = await open()
  const { chain, buyer } = funded()
  const seller = await sellerOn(ledger, chain)
  const peer = await seller.connect()
  const config = (changes: object) => new ChannelBuyer({ changes })
  const theirs = testWallet(99).address
  const strangers: [string, ChannelBuyer, unknown][] = [
    ['no deposit', new ChannelBuyer(), 'balance'],
    ['another receiver', config({ receiver: theirs }), 'refused'],
    ['another authorizer', config({ receiverAuthorizer: theirs }), 'refused'],
    ['another token', config({ token: theirs }), 'refused'],
    ['a short delay', config({ withdrawDelay: 900 }), 'refused'],
    ['a payer that signs itself', config({ payerAuthorizer: `0x${'0'.repeat(40)}` }), 'refused'],
  ]
  for (const [what, stranger, reason] of strangers) {
    if (what !== 'no deposit') chain.set(stranger.id, DEPOSIT)
    expect([what, refusal(await stranger.call(peer, PRICE))]).toEqual([what, reason])
  }
  const looks = chain.looks
  const otherChain = { voucher: buyer.voucher(PRICE, { chainId: 8453 }) }
  const otherKey = { voucher: buyer.voucher(PRICE, { key: Buffer.alloc(32, 5) }) }
  const otherChannel = { voucher: { ...new ChannelBuyer().voucher(PRICE), channelId: buyer.id } }
  const otherTerms = { config: new ChannelBuyer().config }
  for (const changes of [otherChain, otherKey, otherChannel, otherTerms]) {
    expect(refusal(await buyer.call(peer, PRICE, changes))).toBe('refused')
  }
  expect(refusal(await buyer.call(peer, PRICE, { config: undefined }))).toBe('unknown')
  // The chain was asked for none of these.
  expect(chain.looks).toBe(looks)
  expect([await channelsIn(ledger), await paymentsIn(ledger), seller.runs]).toEqual([[], [], []])
})

test('a wrong signature among good ones is refused alone; many cost their peer its requests', async () => {
  const { chain, buyer } = funded()
  const seller = await sellerOn(await open(), chain, { limits: { requestsPerSecond: 30 } })
  const peer = await seller.connect()
  expect(told(await buyer.call(peer, PRICE))).toBe('re: task')
  const wrong = { voucher: buyer.voucher(50n * PRICE, { key: Buffer.alloc(32, 5) }) }
  await Promise.all([buyer.send(peer, 0n, wrong), buyer.send(peer, 3n * PRICE), buyer.send(peer, 3n * PRICE)])
  const answers = [await peer.next(), await peer.next(), await peer.next()]
  expect(answers.map((answer) => refusal(answer) ?? told(answer)).toSorted()).toEqual([
    're: task',
    're: task',
    'refused',
  ])
  const outcomes = []
  for (let sent = 0; sent < 8; sent++) outcomes.push(told(await buyer.call(peer, 0n, wrong)))
  expect(outcomes.at(-1)).toBe('OVERLOADED')
  expect(outcomes.filter((outcome) => outcome === 'OVERLOADED').length).toBeGreaterThan(2)
  // A stranger's wrong voucher does not touch the calls of the channel's own peer.
  const other = await seller.connect('mallory')
  expect(refusal(await buyer.call(other, 0n, wrong))).toBe('refused')
})

test('another peer takes a channel over by a voucher above the best one, and by nothing less', async () => {
  const { chain, buyer } = funded()
  const seller = await sellerOn(await open(), chain)
  const [peer, other] = [await seller.connect(), await seller.connect('mallory')]
  await buyer.call(peer, 5n * PRICE)
  for (const max of [5n * PRICE, PRICE]) {
    const refused = await buyer.call(other, max)
    expect(refused?.message.channel).toEqual({ reason: 'voucher', counted: { total: PRICE, seq: 1 } })
  }
  expect(told(await buyer.call(other, 6n * PRICE))).toBe('re: task')
  expect(refusal(await buyer.call(peer, 6n * PRICE))).toBe('voucher')
  expect(told(await buyer.call(peer, 7n * PRICE))).toBe('re: task')
})

test('hazard 4.12: a replay of a lower voucher moves nothing, and a charge of 0 does not give its ceiling to another call', async () => {
  const { chain, buyer } = funded()
  const seller = await sellerOn(await open(), chain)
  const peer = await seller.connect()
  await buyer.call(peer, 2n * PRICE)
  await buyer.call(peer, PRICE)
  expect(refusal(await buyer.call(peer, PRICE))).toBe('voucher')
  expect(refusal(await buyer.call(peer, 2n * PRICE))).toBe('voucher')
  expect(seller.runs).toHaveLength(2)
})

test('channels of one peer are bounded', async () => {
  const ledger = await open()
  const chain = new FakeChannels()
  const peer = await (await sellerOn(ledger, chain)).connect()
  const outcomes = []
  for (let made = 0; made < 17; made++) {
    const buyer = new ChannelBuyer()
    chain.set(buyer.id, DEPOSIT)
    const answer = await buyer.call(peer, PRICE)
    outcomes.push(refusal(answer) ?? told(answer))
  }
  expect(outcomes.filter((outcome) => outcome === 're: task')).toHaveLength(16)
  expect(outcomes.at(-1)).toBe('refused')
})

test('a call keeps its id across a restart: a stored one is answered, and one that was killed in its run may be sent again', async () => {
  const ledger = await open()
  const { chain, buyer } = funded()
  const seller = await sellerOn(asEnded(ledger), chain)
  const peer = await seller.connect()
  const [sold, killed] = [randomUUID(), randomUUID()]
  await buyer.call(peer, 5n * PRICE, { id: sold })
  seller.work = () => new Promise(() => {})
  void buyer.send(peer, 5n * PRICE, { id: killed })
  await until(() => seller.runs.length === 2)
  const again = await sellerOn(ledger, chain)
  const back = await again.connect()
  expect(told(await buyer.call(back, 5n * PRICE, { id: sold }))).toBe('re: task')
  expect(again.runs).toHaveLength(0)
  expect(told(await buyer.call(back, 5n * PRICE, { id: killed }))).toBe('re: task')
  expect(await again.payments.get(channelCallId(buyer.id, killed))).toMatchObject({ channel: { charge: { seq: 2 } } })
})
