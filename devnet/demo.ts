/** `npm run demo`: runs a local market and explains each step. Every figure is read from the running parts. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { styleText } from 'node:util'
import { parseEventLogs } from 'viem'
import { reasonOf } from '../src/lib/errors.ts'
import type { ExecutionResult } from '../src/schema/api.ts'
import { type DevChain, usdcAbi } from './chain.ts'
import { type NodeProcess, runStoa, startNode } from './cli-process.ts'
import { type Devnet, startDevnet } from './devnet.ts'

const PRICE = '0.01'
const TASK = `Peer-to-peer markets need no operator: each node keeps its own copy of the listings and chooses its trading partners.
A listing is signed by its seller, so nobody else can change it, and it expires unless the seller refreshes it.
Payment used to be the hard part, because strangers on a network cannot send each other invoices.
An authorization that the buyer signs and the seller submits to the chain solves this: it can be spent once, only to the seller, and only for the exact price.
The weather on the day of the first trade was fine.
If the agent fails, the seller never submits the authorization, and the buyer has lost nothing.`
const DISCOVERY_MS = 10_000

type Cleanup = (() => Promise<unknown>)[]

async function main(): Promise<number> {
  const cleanup: Cleanup = []
  const started = performance.now()
  const step = (text: string) => {
    const seconds = ((performance.now() - started) / 1000).toFixed(1).padStart(5)
    process.stdout.write(`${paint('dim', `${seconds} s`)}  ${text}\n`)
  }
  try {
    return await trade(step, cleanup)
  } catch (error) {
    process.stderr.write(`\nThe demo failed: ${reasonOf(error)}\n`)
    return 1
  } finally {
    for (const undo of cleanup.reverse()) await undo().catch(() => {})
  }
}

async function trade(step: (text: string) => void, cleanup: Cleanup): Promise<number> {
  const home = await mkdtemp(join(tmpdir(), 'stoa-demo-'))
  cleanup.push(() => rm(home, { recursive: true, force: true }))

  const devnet = await startDevnet()
  cleanup.push(() => devnet.stop())
  step(`a local EVM chain with USDC runs at ${devnet.rpcUrl}`)
  step(`an x402 facilitator runs at ${devnet.facilitatorUrl}`)

  const environment = {
    NODE_NETWORK: 'eip155:84532',
    ETHEREUM_RPC_URL: devnet.rpcUrl,
    FACILITATOR_URL: devnet.facilitatorUrl,
    NODE_LISTEN_HOST: '127.0.0.1',
  }
  const anyPort = ['--port', '0', '--api-port', '0', '--no-mdns']
  const agent = [
    '--name',
    'Summarizer',
    '--description',
    'Summarizes any text.',
    '--model',
    'builtin/summarize',
    '--price',
    PRICE,
  ]
  const seller = await startNode([...anyPort, ...agent, '--data-dir', join(home, 'seller')], {
    ...environment,
    SELLER_PRIVATE_KEY: devnet.wallets.seller.privateKey,
  })
  cleanup.push(() => seller.stop())
  step(`the node of the seller runs: peer ${short(seller.ready.peer_id)}, process ${seller.ready.pid}`)
  const { id, name, price } = seller.ready.agents[0]!
  step(`it lists "${name}" for ${price} USDC, agent ${short(id)}`)

  const buyerEnvironment = { ...environment, BUYER_PRIVATE_KEY: devnet.wallets.buyer.privateKey }
  const buyerDir = ['--data-dir', join(home, 'buyer')]
  const buyer = await startNode([...anyPort, ...buyerDir, '--bootstrap', seller.ready.addresses[0]!], buyerEnvironment)
  cleanup.push(() => buyer.stop())
  step(`the node of the buyer runs: peer ${short(buyer.ready.peer_id)}, process ${buyer.ready.pid}`)

  const listing = await discover(buyer, id)
  step(`the buyer found "${listing.name}" over libp2p, sold by ${short(listing.seller_id)}`)

  const before = await balances(devnet)
  const call = ['--agent-id', id, '--task', TASK, '--max-price', PRICE, '--await-settlement']
  const execute = ['agent', 'execute', ...call, '--json', ...buyerDir]
  const result = JSON.parse(await runStoa(execute, buyerEnvironment)) as ExecutionResult
  const { payment } = result
  if (payment === null) throw new Error('the agent asked for no payment')
  step(`the seller asked for ${payment.amount} USDC; the buyer signed exactly this amount and has the result`)

  const paid = await readPayment(devnet.chain, payment.tx_hash as `0x${string}`)
  step(`the payment settled on chain in block ${paid.block}: ${formatUsdc(paid.value)} USDC moved to the seller`)
  const after = await balances(devnet)
  const codes = [await buyer.stop(), await seller.stop()]
  step('both nodes removed their listings and stopped')

  table([
    ['result', result.output.replace(/\s+/g, ' ')],
    ['price', `${payment.amount} USDC`],
    ['payment id', payment.payment_id],
    ['transaction', payment.tx_hash],
    ['buyer balance', `${formatUsdc(before.buyer)} → ${formatUsdc(after.buyer)} USDC`],
    ['seller balance', `${formatUsdc(before.seller)} → ${formatUsdc(after.seller)} USDC`],
  ])
  const price6 = BigInt(payment.amount_atomic)
  const moved = before.buyer - after.buyer === price6 && after.seller - before.seller === price6
  const settled = paid.value === price6 && paid.to.toLowerCase() === devnet.wallets.seller.address.toLowerCase()
  if (!moved || !settled) throw new Error('the chain does not show the payment')
  if (codes.some((code) => code !== 0)) throw new Error(`the nodes ended with ${codes.join(' and ')}`)
  process.stdout.write(`\n${paint('green', 'The money moved.')} Next: README.md, "Sell" and "Buy".\n`)
  return 0
}

async function discover(buyer: NodeProcess, id: string) {
  const deadline = performance.now() + DISCOVERY_MS
  while (performance.now() < deadline) {
    const answer = await fetch(`${buyer.ready.api_url}/agents/${id}`)
    if (answer.ok) return (await answer.json()) as { name: string; seller_id: string }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`the buyer did not discover agent ${id}`)
}

async function balances({ chain, wallets }: Devnet) {
  const [buyer, seller] = await Promise.all([
    chain.balanceOf(wallets.buyer.address),
    chain.balanceOf(wallets.seller.address),
  ])
  return { buyer, seller }
}

async function readPayment(chain: DevChain, hash: `0x${string}`) {
  const receipt = await chain.client.getTransactionReceipt({ hash })
  const [transfer] = parseEventLogs({ abi: usdcAbi, eventName: 'Transfer', logs: receipt.logs })
  if (receipt.status !== 'success' || transfer === undefined) throw new Error(`transaction ${hash} moved no USDC`)
  return { block: receipt.blockNumber, ...transfer.args }
}

function table(rows: readonly (readonly [string, string])[]): void {
  const width = Math.min(process.stdout.columns ?? 100, 120) - 18
  process.stdout.write('\n')
  for (const [name, value] of rows) {
    const [first = '', ...more] = wrap(value, width)
    process.stdout.write(`  ${paint('bold', name.padEnd(14))}  ${first}\n`)
    for (const line of more) process.stdout.write(`${' '.repeat(18)}${line}\n`)
  }
}

function wrap(text: string, width: number): string[] {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!
    if (line !== '' && line.length + 1 + word.length > width) lines.push(word)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines
}

function formatUsdc(atomic: bigint): string {
  const text = atomic.toString().padStart(7, '0')
  return `${text.slice(0, -6)}.${text.slice(-6)}`
}

function short(id: string): string {
  return `${id.slice(0, 6)}…${id.slice(-6)}`
}

function paint(format: 'dim' | 'bold' | 'green', text: string): string {
  return styleText(format, text, { stream: process.stdout })
}

process.exitCode = await main()
