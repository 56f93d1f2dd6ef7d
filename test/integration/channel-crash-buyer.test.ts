/** Buyers killed at every step of a call on a channel and of its deposit: real processes, SIGKILL, the real chain. */
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { ExecutionResult } from '../../src/schema/api.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { ask } from '../support/api-calls.ts'
import {
  CHANNEL_DEPOSIT,
  CHANNEL_PRICE,
  channelChain,
  isOnChannel,
  readBuyerChannels,
  readSellerChannels,
  troubleOfBooks,
  untilOnChannel,
  writeChannelNode,
} from '../support/channel-trade.ts'
import { localAddress } from '../support/loopback.ts'
import { startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { until } from '../support/until.ts'

let devnet: Devnet
let seller: TestNode
/** The funds of each buyer. */
const FUNDS = 1_000_000n
const buyers: { dir: string; payer: Hex }[] = []
/** The channel of each case that was judged: a case that is tried again leaves another one behind. */
const judged = new Map<string, Hex>()
/** Set when the seller has been stopped. */
let earnedBySeller: string | undefined

beforeAll(async () => {
  devnet = await startDevnet()
  const { rpcUrl, facilitatorUrl, wallets } = devnet
  seller = await startTestNode({ key: wallets.seller.privateKey, rpcUrl, facilitatorUrl, sellerChannels: 'auto' })
  await seller.registerAgent({ name: 'echo', description: 'repeats', price: CHANNEL_PRICE, model: 'builtin/echo' })
})
afterAll(async () => {
  await killNodeProcesses()
  await stopTestNodes()
  await devnet.stop()
})

async function newBuyer() {
  const dir = await testDir()
  await writeChannelNode(dir, '/dev/null')
  const key = generatePrivateKey()
  const payer = privateKeyToAccount(key).address
  buyers.push({ dir, payer })
  await devnet.fund(payer, FUNDS)
  const bootstrap = localAddress(seller.addresses())
  const { rpcUrl, facilitatorUrl } = devnet
  const environment = { ETHEREUM_RPC_URL: rpcUrl, FACILITATOR_URL: facilitatorUrl, BUYER_PRIVATE_KEY: key }
  const args = ['--data-dir', dir, '--bootstrap', bootstrap]
  const start = (faultPoint?: string) => startNodeProcess({ faultPoint, armsLater: true, args, environment })
  return { dir, payer, start }
}

async function call({ ready }: NodeProcess, task: string): Promise<ExecutionResult> {
  const url = ready.api_url
  const agents = await until(
    async () => {
      const known = await ask<{ id: string; seller_id: string }[]>(url, '/agents')
      return known.filter(({ seller_id }) => seller_id === seller.peerId)[0]
    },
    { timeoutMs: 60_000 },
  )
  return ask<ExecutionResult>(url, `/agents/${agents.id}/execute`, { body: { task } })
}

/** Waits until the ledger of a killed buyer has no call left whose outcome is not known. */
async function settled(dir: string): Promise<void> {
  const open = async () => {
    const { orders, channels } = await readBuyerChannels(dir)
    const isOpen = orders.some(
      ({ status, state, channel }) => status === 'executing' || (channel !== null && state === 'reserved'),
    )
    return isOpen || channels.some(({ early }) => early > 0)
  }
  await until(async () => !(await open()), { timeoutMs: 60_000, everyMs: 100 })
}

describe('hazard 4.2: a buyer that pays on a channel, killed at', { concurrent: true, timeout: 600_000 }, () => {
  const cases: [string, string][] = [
    ['buyer:mark-raised', 'what it may have signed counts as signed'],
    ['buyer:call-reserved', 'nothing was signed: the call is sent'],
    ['buyer:call-signed', 'nothing was sent: the call is sent'],
    ['buyer:call-sent', 'the result is asked for'],
    ['buyer:answered', 'the result is asked for, and counted once'],
    ['after the result was stored', 'nothing is bought again'],
  ]
  test.each(cases)('%s: %s', async (faultPoint) => {
    const { dir, payer, start } = await newBuyer()
    const first = await start(faultPoint)
    await untilOnChannel(() => call(first, 'open'))
    await first.arm()
    const bought = call(first, 'the call')
    if (faultPoint.startsWith('buyer:')) await bought.catch(() => {})
    else {
      expect(isOnChannel(await bought)).toBe(true)
      first.child.kill('SIGKILL')
    }
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
    const second = await start()
    await settled(dir)
    // The channel goes on with what is left of it.
    expect(isOnChannel(await call(second, 'next'))).toBe(true)
    await second.stop()
    const { orders } = await readBuyerChannels(dir)
    expect(orders.map(({ status }) => status)).toEqual(orders.map(() => 'completed'))
    judged.set(faultPoint, await judge(dir, payer))
  })

  test.each([
    ['buyer:deposit-stored', 'the same deposit is sent after the start'],
    ['buyer:deposit-sent', 'the chain shows the deposit, and it is made once'],
  ])('%s: %s', async (faultPoint) => {
    const { dir, payer, start } = await newBuyer()
    const first = await start(faultPoint)
    await first.arm()
    await call(first, 'first').catch(() => {})
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
    const second = await start()
    await untilOnChannel(() => call(second, 'more'))
    await settled(dir)
    await second.stop()
    const { channels } = await readBuyerChannels(dir)
    expect(channels).toHaveLength(1)
    expect(await channelChain(devnet).state(channels[0]!.id)).toMatchObject({ balance: CHANNEL_DEPOSIT })
    judged.set(faultPoint, await judge(dir, payer))
  })
})

test('the chain pays the seller what both books say of all these buyers, to the unit', async () => {
  const dir = seller.dataDir
  const { escrow, state, receiver } = channelChain(devnet)
  const account = devnet.wallets.seller.address
  earnedBySeller ??= await endSeller()
  const channels = await readSellerChannels(dir)
  expect(judged.size).toBe(8)
  expect(channels.map(({ id }) => id)).toEqual(expect.arrayContaining([...judged.values()]))
  for (const { id, charged } of channels) expect((await state(id)).totalClaimed).toBe(charged)
  // The seller may not have seen a deposit of a buyer that was killed.
  const opened = await Promise.all(buyers.map(async (one) => (await readBuyerChannels(one.dir)).channels))
  let free = 0n
  for (const id of new Set([...channels, ...opened.flat()].map((channel) => channel.id))) {
    const { totalClaimed, balance } = await state(id)
    free += balance - totalClaimed
  }
  const { totalClaimed, totalSettled } = await receiver(account)
  expect(await escrow()).toBe(free + totalClaimed - totalSettled)
  const paid = await Promise.all(buyers.map(async ({ payer }) => FUNDS - (await devnet.chain.balanceOf(payer))))
  const earned = paid.reduce((sum, amount) => sum + amount, 0n) - free
  expect(earnedBySeller).toBe(earned.toString())
})

/** Stops the seller when all is settled. @returns what it says it has earned */
async function endSeller(): Promise<string> {
  await until(async () => (await seller.status()).settlement.pending === 0)
  const { earned } = await seller.stats({ days: 1 })
  await seller.stop()
  return earned.total_atomic
}

/** Both books of the only channel of a buyer agree, and its sums with what left its wallet. */
async function judge(dir: string, payer: Hex): Promise<Hex> {
  const { channels, exact, held, spent } = await readBuyerChannels(dir)
  const [channel, ...others] = channels
  expect(others).toEqual([])
  const sold = (await readSellerChannels(seller.dataDir)).find(({ id }) => id === channel!.id)!
  expect(troubleOfBooks(sold, channel!)).toEqual([])
  // A payment without a channel that was cut off counts until its end is certain.
  expect(spent).toBe(exact + held + channel!.charged)
  const { balance } = await channelChain(devnet).state(channel!.id)
  const left = await devnet.chain.balanceOf(payer)
  expect([FUNDS - balance - exact, FUNDS - balance - exact - held]).toContain(left)
  return channel!.id
}
