/** A buyer leaves payment channels, by its seller's refund or by its own withdrawal. The chain has the last word on each unit. */
import { cp } from 'node:fs/promises'

import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { batchSettlementAddress } from '../../src/chain/batch-settlement.ts'
import type { StoaNode } from '../../src/node/api.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { dataFile } from '../../src/store/data-dir.ts'
import { HandClock } from '../support/hand-clock.ts'
import { localAddress } from '../support/loopback.ts'
import {
  discover,
  startTestNode,
  stopTestNodes,
  type TestNode,
  type TestNodeOptions,
  testDir,
} from '../support/loopback-node.ts'
import { until } from '../support/until.ts'

let devnet: Devnet
// Each test has a chain of its own: some move its clock.
beforeEach(async () => {
  devnet = await startDevnet()
})
afterEach(async () => {
  await stopTestNodes()
  await devnet.stop()
})

const PRICE = 1_000n
const DELAY_SECONDS = 900
const FUNDS = 10_000_000n
const MINUTE_MS = 60_000

/** A buyer and a seller with accounts of their own, and a clock that the test moves beside that of the chain. */
async function market({ gas = true } = {}) {
  const { rpcUrl, facilitatorUrl, chain } = devnet
  const clock = new HandClock(Date.now())
  const [sellerKey, buyerKey] = [generatePrivateKey(), generatePrivateKey()]
  const [seller, buyer] = [sellerKey, buyerKey].map((key) => privateKeyToAccount(key).address) as [Hex, Hex]
  await devnet.chain.mint(buyer, FUNDS)
  if (gas) await chain.fundGas(buyer)
  const before = await chain.balanceOf(batchSettlementAddress)
  let dataDir: string | undefined
  const startSeller = async (more: Partial<TestNodeOptions> = {}): Promise<TestNode> => {
    const terms = { sellerChannels: 'auto', channelWithdrawDelay: DELAY_SECONDS } as const
    const node = await startTestNode({
      key: sellerKey,
      rpcUrl,
      facilitatorUrl,
      ...terms,
      ...(dataDir && { dataDir }),
      ...more,
    })
    dataDir = node.dataDir
    await node.registerAgent(
      { name: 'repeat', description: 'repeats', price: PRICE },
      { run: async (input) => String(input) },
    )
    return node
  }
  const startBuyer = (of: StoaNode, more: Partial<TestNodeOptions> = {}) =>
    startTestNode({
      ...{ key: buyerKey, rpcUrl, facilitatorUrl, channels: 'auto', ports: { clock } },
      ...{ bootstrap: [localAddress(of.addresses())] },
      ...more,
    })
  return {
    ...{ clock, startSeller, startBuyer, buyerKey, accounts: { seller, buyer } },
    /** What each party has, of what the buyer had. What is claimed and not settled belongs to the seller. */
    async sums() {
      const [ofBuyer, ofSeller, inContract] = await Promise.all([
        chain.balanceOf(buyer),
        chain.balanceOf(seller),
        chain.balanceOf(batchSettlementAddress),
      ])
      const escrow = inContract - before
      expect(ofBuyer + ofSeller + escrow).toBe(FUNDS)
      return { buyer: ofBuyer, seller: ofSeller, escrow }
    },
  }
}

/** Calls until a channel pays. @returns its id, and how many calls were made */
async function trade(buyer: TestNode, agentId: string): Promise<{ id: string; calls: number }> {
  let calls = 0
  const call = () => buyer.execute({ agentId, input: `task ${calls++}`, signal: AbortSignal.timeout(60_000) })
  const isOnChannel = async () => {
    const { payment } = await call()
    // Settled without a transaction of its own.
    return payment?.settlement === 'settled' && payment.tx_hash === ''
  }
  await until(isOnChannel, { timeoutMs: 60_000, everyMs: 100 })
  for (let more = 0; more < 3; more++) await call()
  const { items } = await buyer.channels.list({ role: 'buyer', limit: 10 })
  return { id: items[0]!.id, calls }
}

const stateOf = async (node: TestNode, id: string) => (await node.channels.get(id)).state

test('ADR-40 a buyer that closes a channel gets from its seller what is free, and opens another one when it calls again', async () => {
  const { startSeller, startBuyer, sums, clock } = await market({ gas: false })
  const seller = await startSeller()
  const buyer = await startBuyer(seller)
  const { id: agentId } = await discover(buyer, seller.peerId, 'repeat')
  const { id, calls } = await trade(buyer, agentId)
  await buyer.channels.close(id)
  await until(async () => (await stateOf(buyer, id)) === 'closed' || clock.advance(200), {
    timeoutMs: 60_000,
    everyMs: 50,
  })
  // The seller has claimed first what it charged.
  const closed = await buyer.channels.get(id)
  expect(closed).toMatchObject({ free: '0', unclaimed: '0', leaving: { why: 'asked', way: 'refund' } })
  const spent = PRICE * BigInt(calls)
  await until(async () => (await sums()).buyer === FUNDS - spent)
  // The channel pays nothing more. The next one has another salt.
  const again = await trade(buyer, agentId)
  expect(again.id).not.toBe(id)
  expect(await stateOf(buyer, id)).toBe('closed')
  await buyer.stop()
  await seller.stop()
  await sums()
})

test('a buyer that has made a deposit and no call gets it back from its seller', async () => {
  const { startSeller, startBuyer, sums, clock } = await market({ gas: false })
  const seller = await startSeller()
  const buyer = await startBuyer(seller)
  const { id: agentId } = await discover(buyer, seller.peerId, 'repeat')
  await expect(buyer.channels.open({ agentId, amount: 99_999n })).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
  const id = await buyer.channels.open({ agentId, amount: 300_000n })
  await until(async () => (await stateOf(buyer, id)) === 'open')
  expect((await sums()).escrow).toBe(300_000n)
  await expect(buyer.channels.open({ agentId })).rejects.toThrow('is open, and is filled up by itself')
  await buyer.channels.close(id)
  await until(async () => (await stateOf(buyer, id)) === 'closed' || clock.advance(1_000), {
    timeoutMs: 60_000,
    everyMs: 50,
  })
  expect((await sums()).buyer).toBe(FUNDS)
})

test('T37 what a seller that is gone does not give back, the buyer takes out by itself after the delay', async () => {
  const { startSeller, startBuyer, sums, clock } = await market()
  const seller = await startSeller()
  const buyer = await startBuyer(seller)
  const { id: agentId } = await discover(buyer, seller.peerId, 'repeat')
  const { id, calls } = await trade(buyer, agentId)
  const spent = PRICE * BigInt(calls)
  await seller.stop()
  await buyer.channels.close(id)
  await until(async () => (await stateOf(buyer, id)) === 'withdrawing' || clock.advance(MINUTE_MS), {
    timeoutMs: 60_000,
    everyMs: 100,
  })
  expect(await buyer.channels.get(id)).toMatchObject({
    leaving: { trouble: expect.stringContaining('gives no refund') },
  })
  // By the time of the chain, and no other, the delay is not over.
  clock.advance(2 * DELAY_SECONDS * 1000)
  await devnet.chain.client.increaseTime({ seconds: DELAY_SECONDS - 60 })
  await devnet.chain.mine()
  expect(await stateOf(buyer, id)).toBe('withdrawing')
  await devnet.chain.client.increaseTime({ seconds: 60 })
  await devnet.chain.mine()
  await until(async () => (await stateOf(buyer, id)) === 'closed' || clock.advance(MINUTE_MS), {
    timeoutMs: 60_000,
    everyMs: 100,
  })
  expect((await sums()).buyer).toBe(FUNDS - spent)
})

test('a buyer that has lost its ledger finds its channel on the chain, and gets from the seller what was not charged', async () => {
  const { startSeller, startBuyer, sums, clock } = await market({ gas: false })
  const seller = await startSeller()
  const first = await startBuyer(seller)
  const { id: agentId } = await discover(first, seller.peerId, 'repeat')
  const { id, calls } = await trade(first, agentId)
  expect(await first.channels.recover(1, AbortSignal.timeout(100_000))).toMatchObject({ recovered: [], known: 1 })
  await first.stop()
  // The keys are all that is left: a seller gives a refund to the peer that used the channel.
  const dataDir = await testDir()
  await cp(dataFile(first.dataDir, 'identity'), dataFile(dataDir, 'identity'))
  const buyer = await startBuyer(seller, { dataDir })
  await discover(buyer, seller.peerId, 'repeat')
  const found = await buyer.channels.recover(1, AbortSignal.timeout(100_000))
  expect(found).toEqual({ recovered: [id], known: 0, empty: 0, older: [], isWhole: true })
  await until(async () => (await stateOf(buyer, id)) === 'closed' || clock.advance(200), {
    timeoutMs: 60_000,
    everyMs: 50,
  })
  const spent = PRICE * BigInt(calls)
  await until(async () => (await sums()).buyer === FUNDS - spent)
  expect(await buyer.channels.recover(1, AbortSignal.timeout(100_000))).toMatchObject({ recovered: [], empty: 1 })
})

test('a buyer that has lost its ledger takes its money out by itself where the seller is gone too', async () => {
  const { startSeller, startBuyer, buyerKey, sums, clock } = await market()
  const seller = await startSeller()
  const first = await startBuyer(seller)
  const { id: agentId } = await discover(first, seller.peerId, 'repeat')
  const { id, calls } = await trade(first, agentId)
  await first.stop()
  await seller.stop()
  const alone = await startTestNode({
    ...{ key: buyerKey, rpcUrl: devnet.rpcUrl, facilitatorUrl: devnet.facilitatorUrl, ports: { clock } },
  })
  expect(await alone.channels.recover(1, AbortSignal.timeout(100_000))).toMatchObject({ recovered: [id] })
  await until(async () => (await stateOf(alone, id)) === 'withdrawing' || clock.advance(1_000), {
    timeoutMs: 60_000,
    everyMs: 50,
  })
  await devnet.chain.client.increaseTime({ seconds: DELAY_SECONDS })
  await devnet.chain.mine()
  await until(async () => (await stateOf(alone, id)) === 'closed' || clock.advance(MINUTE_MS), {
    timeoutMs: 60_000,
    everyMs: 100,
  })
  // A seller claims what it has charged when it stops.
  expect((await sums()).buyer).toBe(FUNDS - PRICE * BigInt(calls))
})
