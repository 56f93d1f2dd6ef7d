/** Buying from a shell with no node running: a short-lived node of the command's own pays and leaves. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { NodeProcess } from '../../devnet/cli-process.ts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { ExecutionResult } from '../../src/schema/api.ts'
import { runStoa, startNode } from '../support/cli-node.ts'

let devnet: Devnet
let seller: NodeProcess
let home: string
let environment: Record<string, string>

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-one-shot-'))
  devnet = await startDevnet()
  environment = {
    ETHEREUM_RPC_URL: devnet.rpcUrl,
    FACILITATOR_URL: devnet.facilitatorUrl,
    NODE_LISTEN_HOST: '127.0.0.1',
  }
  const agent = ['--name', 'echo', '--description', 'Repeats.', '--price', '0.25', '--model', 'builtin/echo']
  seller = await startNode(
    ['--port', '0', '--api-port', '0', '--no-mdns', '--data-dir', join(home, 'seller'), ...agent],
    { ...environment, SELLER_PRIVATE_KEY: devnet.wallets.seller.privateKey },
  )
})
afterAll(async () => {
  await seller?.stop()
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

const buyer = (...args: string[]) =>
  runStoa(
    [...args, '--json', '--no-mdns', '--data-dir', join(home, 'buyer'), '--bootstrap', seller.ready.addresses[0]!],
    { ...environment, BUYER_PRIVATE_KEY: devnet.wallets.buyer.privateKey },
  )

test('discover and execute work with --bootstrap alone, and the chain shows the payment', async () => {
  const [listing] = JSON.parse(await buyer('agent', 'discover')) as { id: string; price: number }[]
  expect(listing).toMatchObject({ id: seller.ready.agents[0]!.id, price: 0.25 })

  const before = await devnet.chain.balanceOf(devnet.wallets.buyer.address)
  const execute = ['agent', 'execute', '--agent-id', listing!.id, '--input', 'from a shell', '--await-settlement']
  const result = JSON.parse(await buyer(...execute)) as ExecutionResult
  expect(result).toMatchObject({ output: 'from a shell', payment: { amount: '0.25', settlement: 'settled' } })
  expect(before - (await devnet.chain.balanceOf(devnet.wallets.buyer.address))).toBe(250_000n)
})

test('a price over --max-price ends with status 4 and nothing signed (D33)', async () => {
  const before = await devnet.chain.balanceOf(devnet.wallets.buyer.address)
  const execute = ['agent', 'execute', '--agent-id', seller.ready.agents[0]!.id, '--task', 'x', '--max-price', '0.1']
  await expect(buyer(...execute)).rejects.toThrow(/ended with 4.*0\.25.*0\.1/s)
  expect(await devnet.chain.balanceOf(devnet.wallets.buyer.address)).toBe(before)
})
