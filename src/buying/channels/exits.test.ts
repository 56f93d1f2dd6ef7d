import { expect, onTestFinished, test } from 'vitest'
import { ChannelScript } from '../../../test/support/channel-script.ts'
import { sellerWallet, testWallet } from '../../../test/support/payments.ts'
import { TestBuyer } from '../../../test/support/test-buyer.ts'
import { until } from '../../../test/support/until.ts'
import { silentLogger } from '../../lib/logger.ts'
import type { Call } from '../../payments/call.ts'
import type { Hex } from '../../schema/primitives.ts'
import { createBuyerChannels } from '../../store/buyer-channels.ts'
import { createChannelOperations } from './channel-operations.ts'
import { createChannels } from './channels.ts'

const PRICE = 1_000n
const DEPOSIT = 20n * PRICE
const DELAY_SECONDS = 900
const HOUR_MS = 60 * 60_000

/** A buyer with a channel on which it has made three calls, and a chain on which it can withdraw. */
async function market({ calls = 3, ports = {} as { send?: (call: Call) => void } } = {}) {
  const seller = new ChannelScript(PRICE)
  const buyer = new TestBuyer({ open: seller.open })
  const store = createBuyerChannels(buyer.database)
  const blockTimeMs = async () => buyer.clock.now()
  const sent: string[] = []
  const mine = (call: Call, id: Hex) => {
    const amount = BigInt(`0x${call.data.slice(-64)}`)
    if (call.purpose.startsWith('begin')) {
      seller.withdrawals.set(id, { amount, initiatedAt: Math.floor(buyer.clock.now() / 1000) })
    } else {
      const [withdrawal, balance] = [seller.withdrawals.get(id)!, seller.chain.get(id)!]
      const free = balance - (seller.claimed.get(id) ?? 0n)
      seller.chain.set(id, balance - (withdrawal.amount < free ? withdrawal.amount : free))
      seller.withdrawals.delete(id)
    }
  }
  const options = { mode: 'auto', aheadCalls: 10, depositMax: 1_000_000n, idleMs: 24 * HOUR_MS } as const
  const channels = createChannels(options, {
    ...{ clock: buyer.clock, logger: silentLogger, store, wallet: testWallet(), streams: buyer.streams },
    ...{ callerDid: 'did:buyer', addrsOf: () => [], stats: () => ({ calls: 100, success_rate: 1 }) },
    onChain: {
      takenOut: async ({ wanted }) => ({ amount: wanted, isWhole: true }),
      reader: seller.reader,
      chain: { blockTimeMs, authorizationAt: async () => ({ use: { state: 'unused' }, timeMs: await blockTimeMs() }) },
    },
    sender: async () => ({
      async send(make) {
        const call = await make()
        ports.send?.(call)
        sent.push(call.purpose.split(' ')[0]!)
        mine(call, call.purpose.slice(-66) as Hex)
        return { hash: '0x', token: undefined }
      },
    }),
  })
  buyer.deps.channels = channels
  const terms = { receiver_authorizer: sellerWallet.channelSigner('claims').address, withdraw_delay: DELAY_SECONDS }
  buyer.list({ price: PRICE, price_atomic: '1000', channel: { ...terms, min_deposit: 5_000n } })
  for (const service of channels.services) await service.start()
  onTestFinished(async () => {
    for (const service of channels.services) await service.stop()
  })
  await buyer.execute().catch(() => {})
  await until(async () => (await store.list())[0]?.deposit === undefined && (await store.list()).length > 0)
  const { id } = (await store.list())[0]!
  for (let made = 0; made < calls; made++) await buyer.execute()
  const row = async () => (await store.get(id))!
  const resolve = (agent: string) => buyer.market.get(agent)
  const operations = createChannelOperations(options, { channels, store, resolve, recovery: undefined })
  /** Lets the clock run until something holds. */
  const after = (isTrue: () => boolean | Promise<boolean>, stepMs = 20_000) =>
    until(async () => (await isTrue()) || void buyer.clock.advance(stepMs), { everyMs: 20 })
  const closed = () => after(async () => (await row()).closedAt !== undefined)
  return { seller, buyer, channels, store, id, row, sent, operations, after, closed, options }
}

test('T37 a seller that gives back too little: the rest is taken out by a withdrawal', async () => {
  const { seller, id, operations, closed, sent, row } = await market()
  seller.onRefund = () => seller.chain.set(id, 18_000n)
  await operations.close(id)
  await closed()
  expect(sent).toEqual(['begin', 'end'])
  // What is charged stays for the seller.
  expect([seller.chain.get(id), (await row()).charged]).toEqual([3n * PRICE, 3n * PRICE])
})

test('a seller that says it has given a refund, and has not, is not believed', async () => {
  const { seller, id, operations, closed, sent, after, row } = await market()
  let asked = 0
  seller.onRefund = () => void asked++
  await operations.close(id)
  await after(() => asked >= 2, 200)
  expect((await row()).leaving?.trouble?.reason).toContain('the chain does not show all of it')
  await closed()
  expect([sent, seller.chain.get(id)]).toEqual([['begin', 'end'], 3n * PRICE])
})

test('a refund that comes while a withdrawal waits takes its place', async () => {
  const { seller, id, operations, row, sent, after } = await market()
  await operations.close(id)
  await after(() => seller.withdrawals.has(id))
  seller.onRefund = () => {
    seller.chain.set(id, 3n * PRICE)
    seller.withdrawals.delete(id)
  }
  await after(async () => (await row()).closedAt !== undefined, 2_000)
  expect([sent, seller.chain.get(id)]).toEqual([['begin'], 3n * PRICE])
})

test('a seller that claims its highest voucher while the withdrawal runs gets no more, and no further channel', async () => {
  const { seller, buyer, id, operations, closed, after, row, store } = await market()
  await operations.withdraw(id)
  await after(() => seller.withdrawals.has(id))
  const { highest } = seller
  seller.claimed.set(id, highest)
  await closed()
  expect(seller.chain.get(id)).toBe(highest)
  expect((await row()).stopped).toContain(`the seller has claimed ${highest}, and its calls cost ${3n * PRICE} at most`)
  await buyer.execute().catch(() => {})
  await buyer.execute().catch(() => {})
  expect(await store.list()).toHaveLength(1)
  // The operator may trust it again.
  const again = await operations.open({ agentId: [...buyer.market.keys()][0]! })
  expect(again).not.toBe(id)
})

test('a channel that nobody has used for a day is left by itself, and one that pays calls is not', async () => {
  const { seller, buyer, id, row, after, closed } = await market()
  seller.onRefund = () => seller.chain.set(id, 4n * PRICE)
  buyer.clock.advance(23 * HOUR_MS)
  await buyer.execute()
  buyer.clock.advance(23 * HOUR_MS)
  await until(async () => (await row()).onChain.balance === DEPOSIT)
  expect((await row()).leaving).toBeUndefined()
  buyer.clock.advance(HOUR_MS)
  await after(async () => (await row()).leaving?.why === 'idle', 0)
  await closed()
  expect(seller.chain.get(id)).toBe(4n * PRICE)
})

test('a channel that has stopped is left by itself', async () => {
  const { seller, buyer, row, closed, sent } = await market()
  seller.faults.push({ charge: (charge) => ({ ...charge, total: charge.total + 1n }) })
  expect(await buyer.execute()).toMatchObject({ output: 'result' })
  await closed()
  expect(await row()).toMatchObject({
    leaving: { why: 'stopped' },
    stopped: expect.stringContaining('states a sum of'),
  })
  expect(sent).toEqual(['begin', 'end'])
})

test('a channel that is left pays no call, and waits for those under way', async () => {
  const { seller, buyer, id, operations, row, after, channels, closed } = await market()
  seller.onRefund = () => seller.chain.set(id, 4n * PRICE)
  const line = channels.line(id)!
  line.hold(`0x${'ab'.repeat(32)}`, PRICE)
  await operations.close(id)
  const exact = seller.exact
  await buyer.execute().catch(() => {})
  expect(seller.exact).toBeGreaterThan(exact)
  await after(async () => (await row()).leaving !== undefined, 0)
  buyer.clock.advance(60_000)
  await until(async () => seller.requests.every(({ method }) => method !== 'refund'))
  line.drop(`0x${'ab'.repeat(32)}`)
  await closed()
  expect(seller.requests.some(({ method }) => method === 'refund')).toBe(true)
})

test('an account without ETH: the reason is stored, and the withdrawal goes on when it has some', async () => {
  let isPoor = true
  const send = () => {
    if (isPoor) throw new Error('the wallet 0x1 has 0 ETH on eip155:84532: send it some')
  }
  const { id, operations, row, after, closed, sent } = await market({ ports: { send } })
  await operations.withdraw(id)
  await after(async () => ((await row()).leaving?.trouble?.count ?? 0) >= 2)
  expect((await row()).leaving?.trouble).toMatchObject({
    step: 'withdrawal',
    reason: expect.stringContaining('send it some'),
  })
  isPoor = false
  await closed()
  expect([sent, (await row()).leaving?.trouble]).toEqual([['begin', 'end'], undefined])
})

test('an account without ETH asks its seller again and again: one that was away, or had no time, gives the money back', async () => {
  const send = () => {
    throw new Error('the wallet 0x1 has 0 ETH on eip155:84532: send it some')
  }
  const { seller, id, operations, row, after, closed } = await market({ ports: { send } })
  const asked = () => seller.requests.filter(({ method }) => method === 'refund').length
  await operations.close(id)
  await after(async () => (await row()).leaving?.trouble?.step === 'withdrawal')
  const before = asked()
  await after(() => asked() >= before + 2, 60_000)
  seller.onRefund = () => seller.chain.set(id, 3n * PRICE)
  await closed()
  expect((await row()).leaving?.trouble?.step).not.toBe('withdrawal')
})

test('a refund that a reorganization takes back is asked for again, after the channel was closed', async () => {
  const { seller, id, operations, closed, row, after } = await market()
  seller.onRefund = () => seller.chain.set(id, 3n * PRICE)
  await operations.close(id)
  await closed()
  seller.chain.set(id, DEPOSIT)
  await after(async () => (await row()).closedAt === undefined)
  await closed()
  expect(seller.chain.get(id)).toBe(3n * PRICE)
})

test('a deposit under way is waited for: it is not sent again, and its money comes back when it lands', async () => {
  const { seller, buyer, operations, channels, row, id, closed, after, store } = await market({ calls: 0 })
  const signed = { validAfter: 0n, salt: id, signature: `0x${'11'.repeat(65)}` } as const
  const validBefore = BigInt(Math.floor(buyer.clock.now() / 1000) + 600)
  const deposit = { ...signed, amount: DEPOSIT, validBefore, balanceBefore: DEPOSIT }
  expect(await store.putDeposit({ ...(await row()), deposit }, () => true)).toBe(true)
  channels.line(id)!.deposit = deposit
  await operations.withdraw(id)
  const before = seller.requests.length
  await after(() => buyer.clock.now() > Number(validBefore - 200n) * 1000)
  expect((await row()).onChain.withdrawal).toBeUndefined()
  expect(seller.requests).toHaveLength(before)
  // Its seller has sent it after all.
  seller.chain.set(id, 2n * DEPOSIT)
  await closed()
  expect((await row()).onChain.balance).toBe(0n)
  // A channel that is left gets no deposit any more.
  const judged = await store.leave(id, () => undefined, buyer.clock.now())
  expect(judged?.leaving?.way).toBe('withdraw')
})

test('another process of the same ledger leaves a channel, and its owner does it', async () => {
  const { id, channels, store, row, buyer, closed } = await market()
  const now = buyer.clock.now()
  await store.leave(id, () => ({ why: 'asked', way: 'withdraw', since: now }), now)
  expect(channels.line(id)!.leaving).toBeUndefined()
  await channels.exits!.followed(id)
  await closed()
  expect((await row()).leaving).toMatchObject({ why: 'asked', way: 'withdraw' })
})

test('an id that is no channel of this buyer, and an agent without channels, are refused with what to do', async () => {
  const { buyer, operations } = await market({ calls: 0 })
  await expect(operations.close(`0x${'1'.repeat(64)}`)).rejects.toMatchObject({ code: 'UNKNOWN_CHANNEL' })
  await expect(operations.open({ agentId: 'nobody' })).rejects.toMatchObject({ code: 'UNKNOWN_AGENT' })
  await expect(operations.open({ agentId: 'free' })).rejects.toThrow('takes no payment channels')
  buyer.market.clear()
})
