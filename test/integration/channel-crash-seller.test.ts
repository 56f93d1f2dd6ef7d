/** Sellers killed at every step of a call on a channel and of its settlement: real processes, SIGKILL, the real chain. */
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { loadOrCreateIdentity } from '../../src/p2p/identity.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { all, together } from '../../src/store/query.ts'
import {
  CHANNEL_DEPOSIT,
  CHANNEL_PRICE,
  channelChain,
  isOnChannel,
  readBuyerChannels,
  readSellerChannels,
  troubleOfBooks,
  untilClaimed,
  untilOnChannel,
  writeChannelNode,
} from '../support/channel-trade.ts'
import { askLedger } from '../support/ledger-engine.ts'
import { localAddress } from '../support/loopback.ts'
import { discover, startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { RawPeer } from '../support/raw-peer.ts'
import { startTestHost } from '../support/test-host.ts'
import { until } from '../support/until.ts'

let devnet: Devnet
let buyer: TestNode
const hosts: { stop(): Promise<void> }[] = []

beforeAll(async () => {
  devnet = await startDevnet()
  buyer = await startTestNode({
    ...{ key: devnet.wallets.buyer.privateKey, rpcUrl: devnet.rpcUrl, facilitatorUrl: devnet.facilitatorUrl },
    ...{ channels: 'auto', dailyBudgetAtomic: 100_000_000n },
  })
})
afterAll(async () => {
  for (const host of hosts) await host.stop()
  await killNodeProcesses()
  await stopTestNodes()
  await devnet.stop()
})

type Market = { seller: NodeProcess; agentId: string; dir: string }
/** Starts on busy cores. */
const WAIT = { timeoutMs: 60_000 }
/** Calls of which one makes the seller reach its fault point. */
const BATCH = 12

async function call(agentId: string, input: string) {
  const bought = await buyer.execute({ agentId, input, signal: AbortSignal.timeout(60_000) })
  if (bought.output.trimEnd() !== input) throw new Error(`${bought.output} is not ${input}`)
  return bought
}

/** Asks for the refund of what is free, as the buyer: by hand, since the answer never comes. */
async function askRefund({ seller, agentId, dir }: Market): Promise<void> {
  const rows = all<{ config: string; id: Uint8Array; ceiling: string; signature: Uint8Array }>(
    'SELECT config, id, ceiling, signature FROM seller_channels',
  )
  const [[row]] = await askLedger(dir, together(rows))
  const host = await startTestHost({ identity: await loadOrCreateIdentity(join(buyer.dataDir, 'identity.key')) })
  hosts.push(host)
  const hex = (bytes: Uint8Array): Hex => `0x${Buffer.from(bytes).toString('hex')}`
  const config = JSON.parse(row!.config) as { payer: string }
  const voucher = { channelId: hex(row!.id), maxClaimableAmount: row!.ceiling, signature: hex(row!.signature) }
  const peer = await RawPeer.open(host, { peerId: seller.ready.peer_id, addrs: seller.ready.addresses })
  const envelope = { x402_version: 2, scheme: 'batch-settlement', network: 'eip155:84532', server_nonce: 'preemptive' }
  const channel = { config, voucher, counted: { total: '0', seq: 0 } }
  const payment = { ...envelope, payer: config.payer, channel }
  await peer.request(agentId, '', { method: 'refund', payment, correlation_id: randomUUID() }).catch(() => undefined)
}

const stop = async ({ seller }: Market) => void seller.child.kill('SIGTERM')
const buy = async ({ agentId }: Market) => void (await call(agentId, 'the call'))
const fail = ({ agentId }: Market) =>
  expect(buyer.execute({ agentId, input: 'x', signal: AbortSignal.timeout(60_000) })).rejects.toMatchObject({
    code: 'EXECUTION_FAILED',
  })

/** `runs`: of the call that meets the crash. `charged`: what it costs. */
type Expected = { act: (market: Market) => Promise<unknown>; runs: number; charged: number; agent?: string }
const cases: [string, string, Expected][] = [
  ['seller:channel-taken', 'nothing ran: the call is sent again under its id', { act: buy, runs: 1, charged: 1 }],
  [
    'seller:executed',
    'the result is lost: the call runs again, and is charged once',
    { act: buy, runs: 2, charged: 1 },
  ],
  ['seller:channel-charged', 'the result is asked for, and given once more', { act: buy, runs: 1, charged: 1 }],
  ['seller:answered', 'the buyer has its result', { act: buy, runs: 1, charged: 1 }],
  [
    'seller:channel-failed',
    'a failed run is not run again, and costs nothing',
    { act: fail, runs: 1, charged: 0, agent: 'fail' },
  ],
  ['seller:claim-signed', 'the next start claims', { act: stop, runs: 0, charged: 0 }],
  ['seller:claim-sent', 'the next start finds the claim on the chain', { act: stop, runs: 0, charged: 0 }],
  ['seller:settle-signed', 'the next stop settles', { act: stop, runs: 0, charged: 0 }],
  ['seller:settle-sent', 'the money has arrived once', { act: stop, runs: 0, charged: 0 }],
  ['seller:refund-signed', 'what was signed counts as gone, and is not spent', { act: askRefund, runs: 0, charged: 0 }],
  ['seller:refund-sent', 'the payer has its money back once', { act: askRefund, runs: 0, charged: 0 }],
]

describe('hazard 4.1: a seller of calls on a channel, killed at', { concurrent: true, timeout: 600_000 }, () => {
  test.each(cases)(
    '%s: %s',
    async (faultPoint, _what, { act, runs: extraRuns, charged: extraCharges, agent = 'repeat' }) => {
      const { dir, runs, account, start } = await newSeller()
      const first = await start(faultPoint)
      const repeatId = (await discover(buyer, first.ready.peer_id, 'repeat', WAIT)).id
      const agentId = (await discover(buyer, first.ready.peer_id, agent, WAIT)).id
      const opened = await untilOnChannel(() => call(repeatId, 'open'))
      await Promise.all(Array.from({ length: BATCH }, (_, n) => call(repeatId, `task ${n}`)))

      await first.arm()
      const acted = act({ seller: first, agentId, dir })
      expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
      const second = await start()
      await acted
      // A seller that was stopping has left the market.
      await discover(buyer, second.ready.peer_id, 'repeat', WAIT)
      // The channel goes on. What a refund has taken is gone, so the next call may be paid for by itself.
      const isRefund = faultPoint.startsWith('seller:refund')
      const next = await call(repeatId, 'next')
      if (!isRefund) expect(isOnChannel(next)).toBe(true)
      await stopped(second, { dir, start })
      if (isRefund) {
        const { refundNonce } = await channelChain(devnet).state((await readSellerChannels(dir))[0]!.id)
        expect(refundNonce).toBe(faultPoint === 'seller:refund-sent' ? 1n : 0n)
      }

      const made = opened + BATCH + 1
      expect(await countRuns(runs)).toBe(made + extraRuns)
      await judge(dir, account, made + extraCharges)
    },
  )

  test.each([
    ['seller:deposit-signed', 'the buyer sends it again'],
    ['seller:deposit-sent', 'the chain shows it, and it is sent once'],
  ])('%s: %s', async (faultPoint) => {
    const { dir, account, start } = await newSeller()
    const first = await start(faultPoint)
    const { id } = await discover(buyer, first.ready.peer_id, 'repeat', WAIT)
    await first.arm()
    const opening = call(id, 'first').catch(() => undefined)
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
    const second = await start()
    await opening
    await untilOnChannel(() => call(id, 'more'))
    await stopped(second, { dir, start })
    const [channel, ...others] = await readSellerChannels(dir)
    expect(others).toEqual([])
    expect(await channelChain(devnet).state(channel!.id)).toMatchObject({ balance: CHANNEL_DEPOSIT })
    await judge(dir, account, undefined)
  })
})

async function newSeller() {
  const dir = await testDir()
  const runs = join(dir, 'runs')
  await writeChannelNode(dir, runs)
  const key = generatePrivateKey()
  const args = ['--data-dir', dir, '--bootstrap', localAddress(buyer.addresses())]
  const { rpcUrl, facilitatorUrl } = devnet
  const environment = { ETHEREUM_RPC_URL: rpcUrl, FACILITATOR_URL: facilitatorUrl, SELLER_PRIVATE_KEY: key }
  const start = (faultPoint?: string) => startNodeProcess({ faultPoint, armsLater: true, args, environment })
  return { dir, runs, account: privateKeyToAccount(key).address, start }
}

/** Stops a seller that has settled all that is paid without a channel, and lets it claim the rest. */
async function stopped(
  seller: NodeProcess,
  { dir, start }: { dir: string; start(): Promise<NodeProcess> },
): Promise<void> {
  const pending = async () => {
    const status = await fetch(`${seller.ready.api_url}/status`).then((response) => response.json())
    return (status as { settlement: { pending: number } }).settlement.pending
  }
  await until(async () => (await pending()) === 0, { everyMs: 100 })
  await seller.stop()
  await untilClaimed(dir, devnet, async () => (await start()).stop())
}

async function countRuns(runs: string): Promise<number> {
  return (await readFile(runs, 'utf8').catch(() => '')).split('\n').filter(Boolean).length
}

/** The chain, both books and what was delivered agree to the unit. @param calls that were delivered; undefined: not known */
async function judge(dir: string, account: Hex, calls: number | undefined): Promise<void> {
  const [seller, ...others] = await readSellerChannels(dir)
  expect(others).toEqual([])
  const bought = async () => (await readBuyerChannels(buyer.dataDir)).channels.find(({ id }) => id === seller!.id)!
  await until(async () => (await bought()).charged === seller!.charged)
  expect(troubleOfBooks(seller!, await bought())).toEqual([])

  const { state, receiver } = channelChain(devnet)
  const { totalClaimed } = await state(seller!.id)
  expect(totalClaimed).toBe(seller!.charged)
  const paid = await devnet.chain.balanceOf(account)
  const { totalClaimed: claimed, totalSettled } = await receiver(account)
  // What the stop has claimed is at the contract if it was too little to be moved.
  const earned = paid + claimed - totalSettled
  if (calls !== undefined) expect(earned).toBe(BigInt(calls) * CHANNEL_PRICE)
  const states = await askLedger(dir, all<{ state: string; amount: number }>('SELECT state, amount FROM payments'))
  const booked = states
    .filter(({ state: each }) => each === 'settled')
    .reduce((sum, { amount }) => sum + BigInt(amount), 0n)
  expect([booked, states.filter(({ state: each }) => each !== 'settled' && each !== 'voided')]).toEqual([earned, []])
}
