/**
 * A buyer with a payment channel is upgraded: its books, its channel and the chain agree before and after. And back: an older
 * version refuses the data, and changes nothing.
 *
 * `STOA_TEST_UPGRADE_FROM=<git ref> vitest run --project node test/integration/channel-upgrade.test.ts` runs that version first. Its
 * packages are those of this checkout, so both need the same.
 */
import { execFileSync } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { ExecutionResult } from '../../src/schema/api.ts'
import type { ChannelRecord } from '../../src/schema/channel-record.ts'
import { ask } from '../support/api-calls.ts'
import {
  CHANNEL_PRICE,
  channelChain,
  isOnChannel,
  readBuyerChannels,
  readSellerChannels,
  troubleOfBooks,
  untilOnChannel,
} from '../support/channel-trade.ts'
import { onServer } from '../support/ledger-engine.ts'
import { localAddress } from '../support/loopback.ts'
import { startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { createTestDatabase } from '../support/test-postgres.ts'
import { until } from '../support/until.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const from = process.env.STOA_TEST_UPGRADE_FROM
const WAIT = { timeoutMs: 60_000, everyMs: 100 }
const FUNDS = 5_000_000n
const CALLS = 5
let devnet: Devnet
let seller: TestNode
let agentId: string
let checkout: string

/** The buyer of these tests: its data, its ledger, and a process of either version. */
async function buyerOn(engine: 'SQLite' | 'PostgreSQL') {
  const dir = await testDir()
  const key = generatePrivateKey()
  const account = privateKeyToAccount(key).address
  await devnet.fund(account, FUNDS)
  await devnet.chain.fundGas(account)
  const settings = { buyer: { channels: 'auto', channel_deposit_max: 1 } }
  await writeFile(join(dir, 'config.yaml'), JSON.stringify(settings), { mode: 0o600 })
  const database = engine === 'PostgreSQL' ? await createTestDatabase({ isEmpty: true }) : undefined
  const address = localAddress(seller.addresses())
  const environment = {
    ...{ ETHEREUM_RPC_URL: devnet.rpcUrl, FACILITATOR_URL: devnet.facilitatorUrl, ETHEREUM_PRIVATE_KEY: key },
    ...(database && { DATABASE_URL: database.address() }),
  }
  const args = ['--data-dir', dir, '--bootstrap', address]
  let running: NodeProcess
  const call = () => {
    const body = { task: 'task' }
    return ask<ExecutionResult>(running.ready.api_url, `/agents/${agentId}/execute`, { body })
  }
  const channels = () => ask<ChannelRecord[]>(running.ready.api_url, '/channels')
  return {
    ...{ call, channels, account },
    async start(version: 'old' | 'new'): Promise<void> {
      const faultyNode = join(checkout, 'test/support/faulty-node.ts')
      running = await startNodeProcess({ args, environment, ...(version === 'old' && { faultyNode }) })
      const known = () => ask<{ id: string }[]>(running.ready.api_url, '/agents')
      await until(async () => (await known()).some(({ id }) => id === agentId), WAIT)
    },
    async stop(): Promise<void> {
      running.child.kill('SIGTERM')
      expect(await running.exited).toEqual({ code: 0, signal: null })
    },
    async buy(): Promise<void> {
      for (let made = 0; made < CALLS; made++) expect(isOnChannel(await call())).toBe(true)
    },
    close: (id: string) => ask(running.ready.api_url, `/channels/${id}/close`, { body: {} }),
    /** Reads the ledger by this version, which may change its tables first: no older process may need it any more. */
    books: () => readBuyerChannels(database?.address() ?? dir),
  }
}

describe.skipIf(from === undefined)('a buyer with a payment channel', { timeout: 240_000 }, () => {
  beforeAll(async () => {
    checkout = await mkdtemp(join(tmpdir(), 'stoa-before-'))
    const archive = execFileSync('git', ['-C', ROOT, 'archive', from!], { maxBuffer: 2 ** 30 })
    execFileSync('tar', ['-x', '-C', checkout], { input: archive })
    await symlink(join(ROOT, 'node_modules'), join(checkout, 'node_modules'))
    devnet = await startDevnet()
    const { rpcUrl, facilitatorUrl } = devnet
    seller = await startTestNode({ key: generatePrivateKey(), rpcUrl, facilitatorUrl, sellerChannels: 'auto' })
    const agent = { name: 'repeat', description: 'repeats its task', price: CHANNEL_PRICE }
    agentId = (await seller.registerAgent(agent, { run: async (input) => String(input) })).id
  })
  afterAll(async () => {
    await killNodeProcesses()
    await stopTestNodes()
    await devnet?.stop()
    await rm(checkout, { recursive: true, force: true })
  })

  const engines = onServer ? (['PostgreSQL'] as const) : (['SQLite', 'PostgreSQL'] as const)
  test.each(engines)('goes on by it after an upgrade, and gets its rest back, on %s', async (engine) => {
    const buyer = await buyerOn(engine)
    await buyer.start('old')
    await untilOnChannel(buyer.call)
    await buyer.buy()
    const [before] = await buyer.channels()
    await buyer.stop()

    await buyer.start('new')
    const [after] = await buyer.channels()
    expect(after).toEqual(before)
    await buyer.buy()
    const { id } = after!
    await buyer.close(id)
    const record = async () => (await buyer.channels()).find((one) => one.id === id)!
    await until(async () => (await record()).closed_at !== undefined, WAIT)
    await buyer.stop()

    const books = await buyer.books()
    const bought = books.channels.find((one) => one.id === id)!
    const sold = (await readSellerChannels(seller.dataDir)).find((one) => one.id === id)!
    expect(troubleOfBooks(sold, bought)).toEqual([])
    const onChain = await channelChain(devnet).state(id as `0x${string}`)
    // What is claimed and not settled lies in the contract, and belongs to the seller.
    expect([onChain.totalClaimed, onChain.balance]).toEqual([sold.charged, sold.charged])
    expect(await devnet.chain.balanceOf(buyer.account)).toBe(FUNDS - books.exact - books.held - sold.charged)
    const { exact, held, orders } = books
    const figures = `${orders.length} calls, ${sold.charged} on the channel, ${exact} spent and ${held} held without it`
    process.stdout.write(`${engine}, from ${from}: ${figures}\n`)
  })

  test.each(engines)('keeps all of it if an older version is started on it, on %s', async (engine) => {
    const buyer = await buyerOn(engine)
    await buyer.start('new')
    await untilOnChannel(buyer.call)
    await buyer.buy()
    const [before] = await buyer.channels()
    await buyer.stop()
    const books = await buyer.books()

    const refused = await buyer.start('old').then(
      () => 'it starts',
      (error: Error) => error.message,
    )
    process.stdout.write(`${engine}, back to ${from}: ${refused}\n`)
    expect(refused).toMatch(/STORE_NEWER|newer/)
    expect(await buyer.books()).toEqual(books)

    await buyer.start('new')
    expect((await buyer.channels())[0]).toMatchObject({ id: before!.id, charged: before!.charged })
    await buyer.buy()
    await buyer.stop()
    const bought = (await buyer.books()).channels[0]!
    const sold = (await readSellerChannels(seller.dataDir)).find((one) => one.id === bought.id)!
    expect(troubleOfBooks(sold, bought)).toEqual([])
  })
})
