/**
 * Counts the transactions of calls on payment channels: many buyers at one seller, on the chain of a devnet, from the first
 * call of each until the seller has stopped, with its money in its wallet.
 *
 * A buyer's first call is paid for by itself and opens the channel. The buyer makes the others when the deposit has landed.
 * The bench ends with an error if the chain does not show the sum of all charges to the unit.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { startDevnet } from '../devnet/devnet.ts'
import { batchSettlementAddress, createChannelReader } from '../src/chain/batch-settlement.ts'
import type { StoaNode } from '../src/node/api.ts'
import { createNode } from '../src/node/create-node.ts'
import { assets } from '../src/payments/assets.ts'
import type { Hex } from '../src/schema/primitives.ts'
import { readFlags } from './flags.ts'
import { benchConfig } from './paid-call/stoa-config.ts'
import { NETWORK } from './paid-call/terms.ts'
import { aligned } from './table.ts'

const values = readFlags({
  buyers: { type: 'string', default: '20' },
  /** Calls of each buyer. */
  calls: { type: 'string', default: '50' },
})
const buyers = Number(values.buyers)
const callsEach = Number(values.calls)
/** 0.0001 USDC, in atomic units. A transaction costs a seller ten times as much at a facilitator. */
const PRICE = 100n
const TRANSACTION_PRICE = 1_000n
const FUNDS = 1_000_000n
const AT_ONCE = 8
const WAIT_MS_MAX = 60_000
const LOOK_MS = 3_000
/** What a seller takes at least, unless it says otherwise. */
const CHANNEL_MIN_DEPOSIT = 100_000n
let onChannels = 0

const directory = await mkdtemp(join(tmpdir(), 'stoa-bench-'))
const devnet = await startDevnet()
const { rpcUrl, facilitatorUrl, chain } = devnet
const stops: (() => Promise<void>)[] = []
try {
  const sellerKey = generatePrivateKey()
  const seller = await start('seller', sellerKey)
  const offer = { name: 'Echo', description: 'Answers what it is asked.', price: PRICE, model: 'builtin/echo' }
  const { id } = await seller.registerAgent(offer, { persist: false })
  const bootstrap = seller.addresses().find((one) => one.startsWith('/ip4/127.0.0.1/tcp/'))!
  const nodes: StoaNode[] = []
  for (let count = 1; count <= buyers; count++) {
    const key = generatePrivateKey()
    await devnet.fund(privateKeyToAccount(key).address, FUNDS)
    nodes.push(await start(`buyer-${count}`, key, bootstrap))
  }
  await waitFor('the listing', () => nodes.every((node) => node.listings().some((listing) => listing.id === id)))
  const before = await transactions()
  await Promise.all(nodes.map((node) => call(node, id)))
  const deposits = () => chain.balanceOf(batchSettlementAddress)
  await waitFor('the deposits', async () => (await deposits()) >= CHANNEL_MIN_DEPOSIT * BigInt(buyers))
  // Each buyer looks at the chain once a second.
  await delay(LOOK_MS)
  await Promise.all(nodes.map((node) => callOften(node, id)))
  const called = await transactions()
  for (const stop of stops.splice(1).toReversed()) await stop()
  await stops.splice(0)[0]!()
  const all = (await transactions()) - before
  const calls = buyers * callsEach
  const earned = await earnedBy(privateKeyToAccount(sellerKey).address)
  if (earned !== PRICE * BigInt(calls)) throw new Error(`the seller has ${earned}, and ${calls} calls were made`)
  const share = (Number(TRANSACTION_PRICE) * all) / (calls * Number(PRICE))
  const lines = [
    ['buyers', String(buyers)],
    ['calls', String(calls)],
    ['calls on channels', String(onChannels)],
    ['transactions while calls were made', String(called - before)],
    ['transactions until all was claimed', String(all)],
    ['transactions for 1,000 calls', ((1_000 * all) / calls).toFixed(1)],
    ['cost of a call, share of its price', `${(100 * share).toFixed(1)} %`],
  ]
  process.stdout.write(`${aligned(lines).join('\n')}\n`)
} finally {
  for (const stop of stops.toReversed()) await stop()
  await devnet.stop()
  await rm(directory, { recursive: true, force: true })
}

async function start(name: string, key: Hex, bootstrap?: string): Promise<StoaNode> {
  const { config, secrets } = benchConfig({
    ...{ dataDir: join(directory, name), databaseUrl: '', facilitatorUrl, onChain: { rpcUrl, key } },
    ...(bootstrap === undefined
      ? { settings: { sellerChannels: 'auto' } }
      : { bootstrap, settings: { channels: 'auto' } }),
  })
  const node = await createNode(config, secrets)
  await node.start()
  stops.push(() => node.stop())
  return node
}

async function call(node: StoaNode, agentId: string): Promise<void> {
  const { output, payment } = await node.execute({ agentId, input: 'a task', signal: AbortSignal.timeout(WAIT_MS_MAX) })
  if (output !== 'a task') throw new Error('not the result that was paid for')
  // Settled without a transaction of its own.
  if (payment?.settlement === 'settled' && payment.tx_hash === '') onChannels += 1
}

async function callOften(node: StoaNode, agentId: string): Promise<void> {
  for (let made = 1; made < callsEach; made += AT_ONCE) {
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, callsEach - made) }, () => call(node, agentId)))
  }
}

async function waitFor(what: string, isThere: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + WAIT_MS_MAX
  while (!(await isThere())) {
    if (performance.now() > end) throw new Error(`${what} did not come within ${WAIT_MS_MAX} ms`)
    await delay(100)
  }
}

/** What is in the account, and what is claimed and lies at the contract: less than 0.1 USDC is not worth a transaction. */
async function earnedBy(address: Hex): Promise<bigint> {
  const request = (method: string, params: readonly unknown[]) =>
    (chain.client.request as (call: { method: string; params: readonly unknown[] }) => Promise<unknown>)({
      method,
      params,
    })
  const { totalClaimed, totalSettled } = await createChannelReader({ request }).receiver(
    address,
    assets[NETWORK].address,
  )
  return (await chain.balanceOf(address)) + totalClaimed - totalSettled
}

/** All transactions of the chain so far. */
async function transactions(): Promise<number> {
  const newest = Number(await chain.client.getBlockNumber())
  let count = 0
  for (let block = 1; block <= newest; block++) {
    count += await chain.client.getBlockTransactionCount({ blockNumber: BigInt(block) })
  }
  return count
}
