/** Buyers killed at every step of leaving a channel: real processes, SIGKILL, the real chain. No unit is lost or paid twice. */
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { batchSettlementAddress } from '../../src/chain/batch-settlement.ts'
import type { ExecutionResult } from '../../src/schema/api.ts'
import type { ChannelRecord } from '../../src/schema/channel-record.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { ask, call } from '../support/api-calls.ts'
import {
  CHANNEL_DEPOSIT,
  CHANNEL_PRICE,
  channelChain,
  readBuyerChannels,
  untilOnChannel,
  writeChannelNode,
} from '../support/channel-trade.ts'
import { localAddress } from '../support/loopback.ts'
import { startTestNode, stopTestNodes, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { channelAbi } from '../support/test-channels.ts'
import { until } from '../support/until.ts'

const FUNDS = 1_000_000n
const DELAY_SECONDS = 900
let devnet: Devnet

afterEach(async () => {
  await killNodeProcesses()
  await stopTestNodes()
  await devnet.stop()
})
afterAll(killNodeProcesses)

async function market() {
  devnet = await startDevnet()
  const { rpcUrl, facilitatorUrl, wallets } = devnet
  const offered = { sellerChannels: 'auto', channelWithdrawDelay: DELAY_SECONDS } as const
  const seller = await startTestNode({ key: wallets.seller.privateKey, rpcUrl, facilitatorUrl, ...offered })
  await seller.registerAgent({ name: 'echo', description: 'repeats', price: CHANNEL_PRICE, model: 'builtin/echo' })
  const dir = await testDir()
  await writeChannelNode(dir, '/dev/null')
  const key = generatePrivateKey()
  const payer = privateKeyToAccount(key).address
  await devnet.fund(payer, FUNDS)
  await devnet.chain.fundGas(payer)
  const bootstrap = localAddress(seller.addresses())
  const environment = { ETHEREUM_RPC_URL: rpcUrl, FACILITATOR_URL: facilitatorUrl, BUYER_PRIVATE_KEY: key }
  const args = ['--data-dir', dir, '--bootstrap', bootstrap]
  const start = (faultPoint?: string, armsLater = true) =>
    startNodeProcess({ faultPoint, armsLater: armsLater && faultPoint !== undefined, args, environment })
  return { seller, dir, payer, start }
}

async function trade({ ready }: NodeProcess): Promise<Hex> {
  const url = ready.api_url
  const agents = () => ask<{ id: string; name: string; local: boolean }[]>(url, '/agents')
  const echo = await until(async () => (await agents()).find(({ name, local }) => name === 'echo' && !local), {
    timeoutMs: 60_000,
  })
  let made = 0
  const buy = () => ask<ExecutionResult>(url, `/agents/${echo.id}/execute`, { body: { task: `task ${made++}` } })
  await untilOnChannel(buy)
  await buy()
  return (await ask<ChannelRecord[]>(url, '/channels?role=buyer'))[0]!.id as Hex
}

const recordOf = ({ ready }: NodeProcess, id: string) => ask<ChannelRecord>(ready.api_url, `/channels/${id}`)

/** The time of the chain passes the delay of a withdrawal. */
async function passDelay(): Promise<void> {
  await devnet.chain.client.increaseTime({ seconds: DELAY_SECONDS })
  await devnet.chain.mine()
}

/** Starts the buyer as often as it takes to close the channel. Each start looks at once. */
async function finish(start: () => Promise<NodeProcess>, id: Hex): Promise<void> {
  for (;;) {
    const node = await start()
    const over = async () => {
      const { state } = await recordOf(node, id)
      return state === 'withdrawing' || state === 'closed' ? state : undefined
    }
    // A withdrawal that can end is ended: only one that waits for its delay stays.
    const state = await until(over, { timeoutMs: 60_000, everyMs: 100 })
    const isClosed = state === 'closed' || (await closesSoon(node, id))
    await node.stop()
    if (isClosed) return
    await passDelay()
  }
}

function closesSoon(node: NodeProcess, id: Hex): Promise<boolean> {
  const isClosed = async () => (await recordOf(node, id)).state === 'closed'
  return until(isClosed, { timeoutMs: 4_000, everyMs: 100 }).catch(() => false)
}

async function eventsOf(id: Hex) {
  const logs = await devnet.chain.client.getContractEvents({
    ...{ address: batchSettlementAddress, abi: channelAbi, fromBlock: 0n },
  })
  const own = logs as unknown as { eventName: string; args: { channelId?: Hex } }[]
  const names = own.filter(({ args }) => args.channelId === id).map(({ eventName }) => eventName)
  return names.filter((name) => !['ChannelCreated', 'Deposited', 'Claimed'].includes(name))
}

describe('T37 a buyer that leaves a channel, killed at', () => {
  const [refund, withdrawal] = [['Refunded'], ['WithdrawInitiated', 'WithdrawFinalized']]
  const cases: [string, 'close' | 'withdraw', string[]][] = [
    ['buyer:channel-leaving', 'close', refund],
    ['buyer:refund-answered', 'close', refund],
    ['buyer:channel-closed', 'close', refund],
    ['account:transaction-stored', 'withdraw', withdrawal],
    ['buyer:withdrawal-begun', 'withdraw', withdrawal],
  ]
  test.each(cases)('%s, %s', async (faultPoint, how, events) => {
    const { dir, payer, start } = await market()
    const first = await start(faultPoint)
    const id = await trade(first)
    await first.arm()
    await call(first.ready.api_url, `/channels/${id}/${how}`, { method: 'POST' }).catch(() => {})
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
    await finish(() => start(), id)
    expect(await eventsOf(id)).toEqual(events)
    await judge(dir, payer, id)
  })

  test.each(['account:transaction-stored', 'buyer:withdrawal-ended', 'buyer:channel-closed'])(
    '%s, at the end of a withdrawal',
    async (faultPoint) => {
      const { dir, payer, start } = await market()
      const first = await start()
      const id = await trade(first)
      await ask(first.ready.api_url, `/channels/${id}/withdraw`, { method: 'POST' })
      await until(async () => (await recordOf(first, id)).state === 'withdrawing', { timeoutMs: 60_000, everyMs: 100 })
      await first.stop()
      await passDelay()
      const second = await start(faultPoint, false)
      expect(await second.exited).toEqual({ code: null, signal: 'SIGKILL' })
      await finish(() => start(), id)
      expect(await eventsOf(id)).toEqual(withdrawal)
      await judge(dir, payer, id)
    },
  )
})

/** What the buyer has lost is what its calls have cost, and what is left in the contract is what the seller may claim. */
async function judge(dir: string, payer: Hex, id: Hex): Promise<void> {
  const { channels, exact, held } = await readBuyerChannels(dir)
  const { charged, stopped } = channels.find((one) => one.id === id)!
  expect(stopped).toBe(null)
  const left = FUNDS - (await devnet.chain.balanceOf(payer)) - exact - charged
  expect([0n, held]).toContain(left)
  const { balance, withdrawal } = await channelChain(devnet).state(id)
  expect([balance, withdrawal]).toEqual([charged, undefined])
  expect(charged).toBeLessThan(CHANNEL_DEPOSIT)
}
