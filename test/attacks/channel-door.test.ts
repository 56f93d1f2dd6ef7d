/** Calls on payment channels over HTTP that are not as they should be. */
import { createHash } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { Hold } from '../../src/lib/hold.ts'
import type { ChannelFunds } from '../../src/payments/channels/channel-funds.ts'
import { claimOf } from '../../src/payments/channels/seller-channel.ts'
import { ChannelDoor } from '../../src/protocols/doors/channel-door.ts'
import type { ChannelPayload } from '../../src/schema/x402-http.ts'
import { openDatabase } from '../../src/store/database.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { StoreError } from '../../src/store/store-error.ts'
import { ChannelBuyer, channelTerms, FakeChannels, PRICE } from '../support/channel-buyer.ts'
import { agentId, usdc } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { TestSeller } from '../support/x402-seller.ts'

type Deposit = Extract<ChannelPayload, { type: 'deposit' }>

/** A seller and its door for channels, with a channel of a buyer that has a deposit. `ask` sends a voucher with a task. */
async function openDoor({ ledger }: { ledger?: LedgerDatabase } = {}) {
  const chain = new FakeChannels()
  const buyer = new ChannelBuyer()
  chain.set(buyer.id, 100n * PRICE)
  const channelsOf = { channels: { reader: chain, ...channelTerms } }
  const seller = await new TestSeller(ledger === undefined ? channelsOf : { ledger, ...channelsOf }).start()
  onTestFinished(() => seller.stop())
  const channels = seller.deps.channels!
  const door = new ChannelDoor({ ...seller.deps, channels })
  const ask = (input: string, max: bigint) =>
    door.sell({
      ...{ agentId, input, network: usdc.network, boundTo: createHash('sha256').update(input).digest() },
      payload: { type: 'voucher', channelConfig: buyer.config, voucher: buyer.voucher(max) },
    })
  return { seller, channels, buyer, ask }
}

test('hazard 7.1: while the disk is full, a call that was run is neither corrected nor charged again, and its client gets the result later', async () => {
  const ledger = openDatabase({ path: ':memory:' })
  let isFull = false
  const failing: LedgerDatabase = {
    ...ledger,
    commit: (...change) =>
      isFull ? Promise.reject(new StoreError('STORE_WRITE_FAILED', 'the disk is full')) : ledger.commit(...change),
  }
  const { seller, ask } = await openDoor({ ledger: failing })

  expect(await ask('first', PRICE)).toMatchObject({ kind: 'sold', output: expect.any(String) })
  seller.work = async () => {
    isFull = true
    return 'kept'
  }
  expect(await ask('second', 2n * PRICE)).toMatchObject({ kind: 'pending' })
  expect(await ask('second', 2n * PRICE)).toMatchObject({ kind: 'pending' })
  expect(await ask('third', 2n * PRICE)).toMatchObject({ kind: 'busy' })
  isFull = false
  seller.work = async () => 'new'
  await seller.deps.running.get([...seller.deps.running.keys()][0]!)
  expect(await ask('second', 2n * PRICE)).toMatchObject({
    kind: 'sold',
    output: 'kept',
    settled: { charge: { amount: PRICE, total: 2n * PRICE } },
  })
  expect(await ask('third', 3n * PRICE)).toMatchObject({ kind: 'sold', output: 'new' })
  expect(seller.runs).toHaveLength(3)
})

test('a first voucher above the price is corrected and not charged, also with its deposit', async () => {
  const chain = new FakeChannels()
  const buyer = new ChannelBuyer()
  const seller = await new TestSeller({ channels: { reader: chain, ...channelTerms } }).start()
  onTestFinished(() => seller.stop())
  const channelFunds = {
    async deposit({ deposit }: { deposit?: { amount: bigint } }) {
      chain.set(buyer.id, deposit!.amount)
      return {}
    },
  } as unknown as ChannelFunds
  const door = new ChannelDoor({ ...seller.deps, channelFunds, channels: seller.deps.channels! })
  const deposit = {
    amount: 100n * PRICE,
    authorization: {
      erc3009Authorization: { validAfter: 0n, validBefore: 10_000_000_000n, salt: '0x1', signature: '0x' },
    },
  } as unknown as Deposit['deposit']
  const ask = (max: bigint) =>
    door.sell({
      ...{ agentId, input: 'first', network: usdc.network, boundTo: createHash('sha256').update('first').digest() },
      payload: { type: 'deposit', channelConfig: buyer.config, voucher: buyer.voucher(max), deposit },
    })

  expect(await ask(5n * PRICE)).toMatchObject({
    kind: 'corrected',
    correction: { channelState: { chargedCumulativeAmount: '0' } },
  })
  expect(seller.runs).toHaveLength(0)
  expect(await ask(PRICE)).toMatchObject({ kind: 'sold', settled: { charge: { amount: PRICE, total: PRICE } } })
})

/** The turns of an address at a door, noted as they are taken and given back. */
function notedTurns() {
  const said: string[] = []
  const turn = async () => {
    said.push('turn')
    return new Hold(() => void said.push('given back'))
  }
  return { said, check: { turn, paid: () => void said.push('paid'), unsettled: () => {}, refused: () => {} } }
}

test('T31 a deposit and a voucher of an unknown channel wait for the turn of their address, and keep it only while they may be made up', async () => {
  const chain = new FakeChannels()
  const buyer = new ChannelBuyer()
  const seller = await new TestSeller({ channels: { reader: chain, ...channelTerms } }).start()
  onTestFinished(() => seller.stop())
  const { said, check } = notedTurns()
  const channelFunds = {
    async deposit({ deposit, onProved }: { deposit?: { amount: bigint }; onProved?(): void }) {
      said.push('sent')
      onProved?.()
      said.push('landed')
      chain.set(buyer.id, deposit!.amount)
      return {}
    },
  } as unknown as ChannelFunds
  const door = new ChannelDoor({ ...seller.deps, channelFunds, channels: seller.deps.channels! })
  const times = { validAfter: 0n, validBefore: 10_000_000_000n }
  const erc3009Authorization = { ...times, salt: '0x1', signature: '0x' }
  const deposit = { amount: 100n * PRICE, authorization: { erc3009Authorization } } as unknown as Deposit['deposit']
  const ask = async (more: { type: 'voucher' } | { type: 'deposit'; deposit: Deposit['deposit'] }, max: bigint) => {
    const payload = { ...more, channelConfig: buyer.config, voucher: buyer.voucher(max) }
    const bound = {
      agentId,
      input: 'x',
      network: usdc.network,
      boundTo: createHash('sha256').update(`${max}`).digest(),
    }
    const { kind } = await door.sell({ ...bound, payload, check })
    return [kind, ...said.splice(0)]
  }
  expect(await ask({ type: 'voucher' }, PRICE)).toEqual(['refused', 'turn', 'given back'])
  expect(await ask({ type: 'deposit', deposit }, PRICE)).toEqual([
    ...['sold', 'turn', 'sent', 'given back', 'landed', 'paid'],
  ])
  expect(await ask({ type: 'voucher' }, 2n * PRICE)).toEqual(['sold', 'paid'])
  // What waits for a run of its channel has no turn.
  const { promise: gate, resolve: end } = Promise.withResolvers<string>()
  seller.work = () => gate
  const both = Promise.all([3n, 4n].map((calls) => ask({ type: 'deposit', deposit }, calls * PRICE)))
  await until(() => seller.runs.length === 3)
  expect(said).toEqual(['turn', 'sent', 'given back', 'landed'])
  end('late')
  expect((await both).map(([kind]) => kind)).toEqual(['sold', 'sold'])
})

test('T42 who must wait with a call that was charged is not told that nothing was charged', async () => {
  const { seller, ask } = await openDoor()
  const kinds: string[] = []
  for (let asked = 0; asked < 200; asked++) kinds.push((await ask('first', PRICE)).kind)
  expect(new Set(kinds)).toEqual(new Set(['sold']))
  expect(await ask('first', PRICE)).toMatchObject({ kind: 'limited', settlement: 'unknown' })
  expect(seller.runs).toHaveLength(1)
})

test('T42 the voucher of a call that cost nothing is forgotten, unless something else needs it', async () => {
  const { seller, buyer, ask } = await openDoor()
  const best = async () => (await seller.records.sellerChannels.get(buyer.id))!.best?.maxClaimableAmount
  const fail = () => Promise.reject(new Error('broken'))

  seller.work = fail
  expect(await ask('fails', PRICE)).toMatchObject({ kind: 'failed' })
  // Nothing is charged, so no claim can show it.
  expect(await best()).toBe(PRICE)
  seller.work = undefined
  expect(await ask('first', PRICE)).toMatchObject({ kind: 'sold' })
  seller.work = async () => {
    // It is on disk while its call runs.
    expect(await best()).toBe(2n * PRICE)
    return fail()
  }
  expect(await ask('fails', 2n * PRICE)).toMatchObject({ kind: 'failed' })
  expect(await best()).toBe(PRICE)
  seller.work = undefined
  expect(await ask('second', 2n * PRICE)).toMatchObject({ kind: 'sold', settled: { charge: { total: 2n * PRICE } } })
  expect(await best()).toBe(2n * PRICE)
})

test('T42 a claim shows no voucher of a dear call that failed before the first charge', async () => {
  const { seller, channels, buyer, ask } = await openDoor()
  const agent = seller.agents.get(agentId)!
  const askFor = (amount: bigint, input: string) => {
    seller.agents.set(agentId, { ...agent, amount })
    return ask(input, amount)
  }

  seller.work = () => Promise.reject(new Error('broken'))
  expect(await askFor(2n * PRICE, 'dear')).toMatchObject({ kind: 'failed' })
  seller.work = undefined
  expect(await askFor(PRICE, 'cheap')).toMatchObject({ kind: 'sold' })
  const { totalClaimed, voucher } = claimOf(channels.owned(buyer.id)!.channel)!
  // Whoever reads a higher one on the chain could buy the cheap agent with it.
  expect([totalClaimed, voucher.maxClaimableAmount]).toEqual([PRICE, PRICE])
})
