/**
 * A long run over payment channels: many buyers, one seller, a real chain. Each call costs 0.0001 USDC. One call of 97
 * fails, one of ten shows its output while it runs.
 *
 * Blocks come every two seconds, as on Base. `--block-seconds` and `--facilitator-ms` make deposits slow, `--rpc-ms` each look at
 * the chain.
 *
 * Prints transactions, calls that no channel paid, times of calls, cost, memory and the size of the ledgers, and compares three sums to the unit: what the seller
 * charged, what the buyers paid, and what the chain has out of their reach: in the seller's wallet, or claimed and too little for
 * a transaction of its own. Exits with 1 if they differ, or if a call did not end as it was told.
 */
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { startDevnet } from '../devnet/devnet.ts'
import { createChannelReader } from '../src/chain/batch-settlement.ts'
import { assetOf } from '../src/payments/assets.ts'
import { PRICE_ATOMIC } from './channels/node.ts'
import { startSlowed } from './channels/slowed.ts'
import { readFlags } from './flags.ts'
import { NETWORK } from './paid-call/terms.ts'
import { type Part, startPart } from './part.ts'
import { aligned } from './table.ts'

const values = readFlags({
  buyers: { type: 'string', default: '20' },
  calls: { type: 'string', default: '100000' },
  /** Calls after which memory and disk are looked at. */
  step: { type: 'string', default: '10000' },
  /** Calls of each buyer that run at once. */
  'at-once': { type: 'string', default: '8' },
  'block-seconds': { type: 'string', default: '2' },
  'facilitator-ms': { type: 'string', default: '0' },
  'rpc-ms': { type: 'string', default: '0' },
})
const [buyers, calls, step] = [values.buyers, values.calls, values.step].map(Number) as [number, number, number]
/** What a facilitator charges for a transaction, in USDC. */
const TRANSACTION_COST = 0.001

const usdc = assetOf(NETWORK)!
const note = (text: string) => process.stderr.write(`${text}\n`)
const devnet = await startDevnet()
const dir = await mkdtemp(join(tmpdir(), 'stoa-channels-'))
const parts: Part[] = []
const slowed: { stop(): Promise<void> }[] = []
let isRight = false
try {
  const { chain } = devnet
  const rpcUrl = await behind(devnet.rpcUrl, Number(values['rpc-ms']))
  const facilitatorUrl = await behind(devnet.facilitatorUrl, Number(values['facilitator-ms']))
  const sellerKey = generatePrivateKey()
  const sellerAccount = privateKeyToAccount(sellerKey).address
  await devnet.fund(sellerAccount, 0n)
  const keys = Array.from({ length: buyers }, generatePrivateKey)
  for (const key of keys) await devnet.fund(privateKeyToAccount(key).address, 10_000_000n)
  const firstBlock = await block()
  await chain.setAutomine(false)
  await rpc('evm_setIntervalMining', [Number(values['block-seconds'])])
  const seller = await startPart({
    file: './channels/seller.ts',
    setup: { dataDir: join(dir, 'seller'), rpcUrl, facilitatorUrl, key: sellerKey },
  })
  parts.push(seller)
  const { address = '', agentId = '' } = seller.ready
  note(`${buyers} buyers open channels`)
  const buyer = await startPart({
    file: './channels/buyers.ts',
    setup: {
      ...{ dir, rpcUrl, facilitatorUrl, keys: keys.join(), seller: address, agentId },
      atOnce: values['at-once'],
    },
  })
  parts.push(buyer)
  const opening = await transactions(firstBlock)

  const rows = [
    [
      'calls',
      'calls/s',
      'p50 ms',
      'p99 ms',
      'one by one',
      'transactions',
      'seller MB',
      'buyers MB',
      'seller disk MB',
      'buyers disk MB',
    ],
  ]
  const total = { succeeded: 0, failed: 0, streamed: 0, wrong: 0, oneByOne: 0 }
  for (let made = 0; made < calls; made += step) {
    const from = performance.now()
    const count = Math.min(step, calls - made)
    const done = await buyer.ask<typeof total & { p50: number; p99: number }>({ calls: count })
    const seconds = (performance.now() - from) / 1000
    for (const name of Object.keys(total) as (keyof typeof total)[]) total[name] += done[name]
    const [sold, bought] = [await seller.ask<{ rss: number }>('state'), await buyer.ask<{ rss: number }>('state')]
    const disks = [await diskOf(join(dir, 'seller')), (await diskOf(dir)) - (await diskOf(join(dir, 'seller')))]
    const sizes = [sold.rss, bought.rss, ...disks].map((bytes) => (bytes / 1e6).toFixed(1))
    const times = [done.p50, done.p99].map((ms) => ms.toFixed(0))
    const sums = [`${done.oneByOne}`, `${await transactions(firstBlock)}`]
    rows.push([`${made + count}`, (count / seconds).toFixed(0), ...times, ...sums, ...sizes])
    note(rows.at(-1)!.join('  '))
  }
  const { charged } = await seller.ask<{ charged: string }>('state')
  const { paid } = await buyer.ask<{ paid: string }>('state')
  for (const part of parts.splice(0).toReversed()) await part.stop()
  const { totalClaimed, totalSettled } = await createChannelReader({ request: rpc }).receiver(
    sellerAccount,
    usdc.address,
  )
  const onChain = (await chain.balanceOf(sellerAccount)) + totalClaimed - totalSettled
  const all = await transactions(firstBlock)
  isRight = charged === paid && BigInt(charged) === onChain && total.wrong === 0
  console.log(aligned(rows).join('\n'))
  console.log(
    `${total.succeeded} calls succeeded (${total.streamed} showed output), ${total.failed} failed as told, ${total.oneByOne} were paid one by one`,
  )
  console.log(`transactions: ${opening} to open, ${all} in all, ${((all / calls) * 1000).toFixed(1)} for 1,000 calls`)
  const share = (all * TRANSACTION_COST) / calls / (Number(PRICE_ATOMIC) / 1e6)
  console.log(`at ${TRANSACTION_COST} USDC each: ${(share * 100).toFixed(1)} % of the price of a call`)
  console.log(`charged ${charged}, paid ${paid}, on the chain ${onChain}: ${isRight ? 'equal' : 'NOT EQUAL'}`)
} finally {
  await Promise.allSettled(parts.map((part) => part.stop()))
  for (const each of slowed) await each.stop()
  await devnet.stop()
  await rm(dir, { recursive: true, force: true })
}
process.exitCode = isRight ? 0 : 1

/** A service, or a slow way to it. */
async function behind(url: string, ms: number): Promise<string> {
  if (ms === 0) return url
  const way = await startSlowed(url, ms)
  slowed.push(way)
  return way.url
}

async function rpc(method: string, params: unknown[]): Promise<unknown> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  const response = await fetch(devnet.rpcUrl, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  return ((await response.json()) as { result: unknown }).result
}

async function block(): Promise<number> {
  return Number(await rpc('eth_blockNumber', []))
}

/** Transactions after a block. */
async function transactions(after: number): Promise<number> {
  const last = await block()
  let sum = 0
  for (let number = after + 1; number <= last; number++) {
    sum += Number(await rpc('eth_getBlockTransactionCountByNumber', [`0x${number.toString(16)}`]))
  }
  return sum
}

async function diskOf(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true })
  const sizes = await Promise.all(names.map((name) => stat(join(folder, name)).catch(() => undefined)))
  return sizes.reduce((sum, one) => sum + (one?.isFile() ? one.size : 0), 0)
}
